//! libibverbs, loaded at run time: a machine without it runs the same binary and is told what is missing when it asks.

use super::Missing;
use super::abi::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The name that the library's interface has kept since 2006.
const NAME: &CStr = c"libibverbs.so.1";

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, under their names without `ibv_`. Found once, never unloaded: the library registers handlers that must stay.
        pub(crate) struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Tells of which kind an address of a port is. Since 2020; without it the first address is taken.
            pub query_gid_ex: Option<unsafe extern "C" fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int>,
        }
        impl Library {
            fn open() -> Result<Library, Missing> {
                // SAFETY: a constant name; the library's constructors do no more than set up its own tables.
                let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if handle.is_null() {
                    return Err(Missing::Library(last_error()));
                }
                let find = |name: &CStr| {
                    // SAFETY: the handle is open and the name is a C string.
                    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
                    if symbol.is_null() { Err(Missing::Library(last_error())) } else { Ok(symbol) }
                };
                Ok(Library {
                    // SAFETY: the types are those of the public header for the functions of these names.
                    $($name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(find(
                            CStr::from_bytes_with_nul(concat!("ibv_", stringify!($name), "\0").as_bytes()).unwrap_or(c""),
                        )?)
                    },)*
                    // SAFETY: as above.
                    query_gid_ex: find(c"_ibv_query_gid_ex").ok().map(|symbol| unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int,
                        >(symbol)
                    }),
                })
            }
        }
    };
}
library! {
    get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    free_device_list: fn(*mut *mut ibv_device) -> ();
    get_device_name: fn(*mut ibv_device) -> *const c_char;
    open_device: fn(*mut ibv_device) -> *mut ibv_context;
    close_device: fn(*mut ibv_context) -> c_int;
    query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    dealloc_pd: fn(*mut ibv_pd) -> c_int;
    reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    dereg_mr: fn(*mut ibv_mr) -> c_int;
    create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    destroy_cq: fn(*mut ibv_cq) -> c_int;
    get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events: fn(*mut ibv_cq, u32) -> ();
    create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    destroy_qp: fn(*mut ibv_qp) -> c_int;
}

fn last_error() -> String {
    // SAFETY: no arguments; what it returns is a C string of this thread, copied at once, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the dynamic loader gives no reason".to_owned();
    }
    // SAFETY: not null, so a C string (above).
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The library, loaded at the first call.
///
/// # Errors
/// [`Missing::Library`].
pub(crate) fn library() -> Result<&'static Library, Missing> {
    static LIBRARY: OnceLock<Result<Library, Missing>> = OnceLock::new();
    LIBRARY.get_or_init(Library::open).as_ref().map_err(Clone::clone)
}
