//! The native client for C: `include/kintsugi.h` says what each function does; here is how.
//!
//! Everything that comes from the caller is a pointer and a length. Nothing unwinds into the caller: a panic is an error of the
//! operation, and the client is closed.
#![allow(clippy::missing_safety_doc)] // the header is the contract

use kintsugidb_client::{Client, Error, Mode, Options, Value};
use std::{
    ffi::{CStr, CString, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// `kintsugi_client`
pub struct Handle {
    /// `None` after a panic.
    client: Option<Client>,
    error: CString,
    buffer: Vec<u8>,
}

/// `kintsugi_value`
#[repr(transparent)]
pub struct Answer(Value);

/// `kintsugi_slice`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const c_char,
    len: usize,
}

/// `kintsugi_call`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Call {
    args: *const Slice,
    count: usize,
}

/// `kintsugi_options`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct COptions {
    user: *const c_char,
    password: *const c_char,
    mode: u32,
    timeout_ms: u32,
}

/// `kintsugi_counters`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCounters {
    one_sided: u64,
    retries: u64,
    fallbacks: u64,
    transactions: u64,
    second_rounds: u64,
    messages: u64,
}

const _: () =
    assert!(size_of::<Slice>() == 16 && size_of::<COptions>() == 24 && size_of::<CCounters>() == 48);

const MESSAGES: u32 = 1;
/// The answers of `kintsugi_get` that are no lengths.
const ABSENT: i64 = -1;
const FAILED: i64 = -2;

/// The bytes of a slice; none if it has none.
///
/// # Safety
/// The slice's data are readable for its length, for as long as the answer is used.
unsafe fn bytes<'a>(slice: Slice) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { many(slice.data.cast(), slice.len) }
}

/// # Safety
/// `data` is readable for `len` elements, for as long as the answer is used.
unsafe fn many<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// # Safety
/// A text that ends with a zero, or null.
unsafe fn text(data: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!data.is_null()).then(|| unsafe { CStr::from_ptr(data) }.to_string_lossy().into_owned())
}

impl Handle {
    /// Runs an operation; its failure is noted.
    fn run<T>(&mut self, f: impl FnOnce(&mut Client) -> Result<T, Error>) -> Option<T> {
        let done = match &mut self.client {
            None => Err("the client was closed by an internal error".to_owned()),
            Some(client) => match catch_unwind(AssertUnwindSafe(|| f(client))) {
                Ok(done) => done.map_err(|e| e.to_string()),
                Err(_) => {
                    self.client = None;
                    Err("internal error".to_owned())
                }
            },
        };
        let (done, why) = match done {
            Ok(done) => (Some(done), String::new()),
            Err(why) => (None, why),
        };
        self.error = CString::new(why.replace('\0', " ")).unwrap_or_default();
        done
    }

    fn answer(&mut self, f: impl FnOnce(&mut Client) -> Result<Value, Error>) -> *mut Answer {
        self.run(f).map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(Answer(value))))
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_connect(
    address: *const c_char,
    options: *const COptions,
    error: *mut c_char,
    error_size: usize,
) -> *mut Handle {
    let connected = catch_unwind(|| {
        // SAFETY: the header asks for a text, and for options or null.
        let (address, given) = unsafe { (text(address), options.as_ref()) };
        let mut options = Options::default();
        if let Some(given) = given {
            // SAFETY: texts or null, by the header.
            let (user, password) = unsafe { (text(given.user), text(given.password)) };
            options.user = user.unwrap_or(options.user);
            options.password = password.unwrap_or_default();
            options.mode = if given.mode == MESSAGES { Mode::Messages } else { Mode::OneSided };
            if given.timeout_ms > 0 {
                options.timeout = Duration::from_millis(given.timeout_ms.into());
            }
        }
        Client::connect_with(&address.unwrap_or_default(), options).map_err(|e| e.to_string())
    });
    match connected.unwrap_or_else(|_| Err("internal error".into())) {
        Ok(client) => Box::into_raw(Box::new(Handle {
            client: Some(client),
            error: CString::default(),
            buffer: Vec::new(),
        })),
        Err(why) => {
            if !error.is_null() && error_size > 0 {
                let n = why.len().min(error_size - 1);
                // SAFETY: `error` has `error_size` bytes, by the header, and `n` is less.
                unsafe {
                    std::ptr::copy_nonoverlapping(why.as_ptr().cast(), error, n);
                    *error.add(n) = 0;
                }
            }
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_close(client: *mut Handle) {
    if !client.is_null() {
        // SAFETY: it came from `kintsugi_connect` and is given back once.
        let client = unsafe { Box::from_raw(client) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(client)));
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_error(client: *const Handle) -> *const c_char {
    // SAFETY: a client that was connected and not closed, or null.
    unsafe { client.as_ref() }.map_or(c"no client".as_ptr(), |c| c.error.as_ptr())
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_command(
    client: *mut Handle,
    args: *const Slice,
    count: usize,
) -> *mut Answer {
    // SAFETY: a client or null; `count` slices, each with its data.
    let (client, args) = unsafe { (client.as_mut(), many(args, count)) };
    let Some(client) = client else { return std::ptr::null_mut() };
    // SAFETY: as above.
    let args: Vec<&[u8]> = args.iter().map(|a| unsafe { bytes(*a) }).collect();
    client.answer(|c| {
        if args.is_empty() {
            return Err(Error::Server("ERR a command has a name".into()));
        }
        match c.command(&args) {
            Err(Error::Server(e)) => Ok(Value::Error(e)),
            done => done,
        }
    })
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_transaction(
    client: *mut Handle,
    calls: *const Call,
    count: usize,
) -> *mut Answer {
    // SAFETY: a client or null; `count` calls.
    let (client, calls) = unsafe { (client.as_mut(), many(calls, count)) };
    let Some(client) = client else { return std::ptr::null_mut() };
    client.answer(|c| {
        let mut transaction = c.transaction();
        for call in calls {
            // SAFETY: each with its slices, each with its data.
            let args: Vec<&[u8]> = unsafe { many(call.args, call.count).iter().map(|a| bytes(*a)).collect() };
            if args.is_empty() {
                return Err(Error::Server("ERR a command has a name".into()));
            }
            transaction = transaction.command(&args);
        }
        Ok(transaction.exec()?.map_or(Value::Null, Value::Array))
    })
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_watch(client: *mut Handle, keys: *const Slice, count: usize) -> c_int {
    // SAFETY: a client or null; `count` slices, each with its data.
    let (client, keys) = unsafe { (client.as_mut(), many(keys, count)) };
    // SAFETY: as above.
    let done = client.and_then(|c| c.run(|c| c.watch(keys.iter().map(|k| unsafe { bytes(*k) }))));
    if done.is_some() { 0 } else { -1 }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_unwatch(client: *mut Handle) {
    // SAFETY: a client or null.
    if let Some(client) = unsafe { client.as_mut() } {
        client.run(|c| {
            c.unwatch();
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_get(
    client: *mut Handle,
    key: Slice,
    into: *mut u8,
    capacity: usize,
) -> i64 {
    // SAFETY: a client or null, a slice with its data.
    let (client, key) = unsafe { (client.as_mut(), bytes(key)) };
    let Some(client) = client else { return FAILED };
    let mut buffer = std::mem::take(&mut client.buffer);
    let answer = match client.run(|c| c.get_into(key, &mut buffer)) {
        None => FAILED,
        Some(false) => ABSENT,
        Some(true) => {
            let n = buffer.len().min(capacity);
            if !into.is_null() {
                // SAFETY: `into` has room for `capacity` bytes, and `n` is no more.
                unsafe { std::ptr::copy_nonoverlapping(buffer.as_ptr(), into, n) };
            }
            i64::try_from(buffer.len()).unwrap_or(i64::MAX)
        }
    };
    client.buffer = buffer;
    answer
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_count(client: *const Handle, into: *mut CCounters) {
    // SAFETY: a client or null, counters or null.
    let (Some(client), Some(into)) = (unsafe { client.as_ref() }, unsafe { into.as_mut() }) else { return };
    let c = client.client.as_ref().map(Client::counters).unwrap_or_default();
    *into = CCounters {
        one_sided: c.one_sided,
        retries: c.retries,
        fallbacks: c.fallbacks,
        transactions: c.transactions,
        second_rounds: c.second_rounds,
        messages: c.messages_sent + c.messages_received,
    };
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_type_of(value: *const Answer) -> c_int {
    // SAFETY: a value that is not freed, or null.
    match unsafe { value.as_ref() }.map(|v| &v.0) {
        None | Some(Value::Null) => 0,
        Some(Value::Int(_)) => 1,
        Some(Value::Double(_)) => 2,
        Some(Value::Bool(_)) => 3,
        Some(Value::Simple(_) | Value::Bulk(_) | Value::Verbatim(_) | Value::Big(_)) => 4,
        Some(Value::Error(_)) => 5,
        Some(Value::Array(_) | Value::Set(_) | Value::Push(_)) => 6,
        Some(Value::Map(_)) => 7,
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_int(value: *const Answer) -> i64 {
    // SAFETY: a value that is not freed, or null.
    match unsafe { value.as_ref() }.map(|v| &v.0) {
        Some(Value::Int(n)) => *n,
        Some(Value::Bool(b)) => i64::from(*b),
        _ => 0,
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_double(value: *const Answer) -> f64 {
    // SAFETY: a value that is not freed, or null.
    match unsafe { value.as_ref() }.map(|v| &v.0) {
        Some(Value::Int(n)) => *n as f64,
        Some(Value::Double(x)) => *x,
        _ => 0.0,
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_string(value: *const Answer) -> Slice {
    // SAFETY: a value that is not freed, or null.
    let bytes: &[u8] = match unsafe { value.as_ref() }.map(|v| &v.0) {
        Some(Value::Simple(s) | Value::Error(s) | Value::Big(s)) => s.as_bytes(),
        Some(Value::Bulk(b) | Value::Verbatim(b)) => b,
        _ => &[],
    };
    Slice { data: bytes.as_ptr().cast(), len: bytes.len() }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_length(value: *const Answer) -> usize {
    // SAFETY: a value that is not freed, or null.
    match unsafe { value.as_ref() }.map(|v| &v.0) {
        Some(Value::Array(all) | Value::Set(all) | Value::Push(all)) => all.len(),
        Some(Value::Map(pairs)) => 2 * pairs.len(),
        _ => 0,
    }
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_element(value: *const Answer, index: usize) -> *const Answer {
    // SAFETY: a value that is not freed, or null.
    let element = match unsafe { value.as_ref() }.map(|v| &v.0) {
        Some(Value::Array(all) | Value::Set(all) | Value::Push(all)) => all.get(index),
        Some(Value::Map(pairs)) => {
            pairs.get(index / 2).map(|(key, value)| if index.is_multiple_of(2) { key } else { value })
        }
        _ => None,
    };
    // An answer is nothing but its value: `repr(transparent)`.
    element.map_or(std::ptr::null(), |v| std::ptr::from_ref(v).cast())
}

#[unsafe(no_mangle)]
/// See the header.
pub unsafe extern "C" fn kintsugi_free(value: *mut Answer) {
    if !value.is_null() {
        // SAFETY: it came from here as a whole, and is given back once.
        drop(unsafe { Box::from_raw(value) });
    }
}
