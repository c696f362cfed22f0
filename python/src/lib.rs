//! What `kintsugidb/__init__.py` builds on: a client, bytes in and Python objects out. The interpreter is free for other threads while an
//! operation is under way.
use kintsugidb_client::{Client, Error, Mode, Options, Result, Value};
use pyo3::{
    create_exception,
    exceptions::{PyException, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString},
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

create_exception!(kintsugidb, KintsugiError, PyException, "The connection, or the way to it, failed.");
create_exception!(
    kintsugidb,
    ServerError,
    KintsugiError,
    "The server answered with an error; its code comes first."
);

fn raise(e: Error) -> PyErr {
    match e {
        Error::Server(why) => ServerError::new_err(why),
        e => KintsugiError::new_err(e.to_string()),
    }
}

/// An argument of a command: bytes, str, int or float.
fn argument(from: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = from.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(text) = from.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    let number = !from.is_instance_of::<PyBool>()
        && (from.is_instance_of::<PyInt>() || from.is_instance_of::<PyFloat>());
    if number {
        return Ok(from.str()?.to_str()?.as_bytes().to_vec());
    }
    Err(PyTypeError::new_err(format!(
        "an argument is bytes, str, int or float, not {}",
        from.get_type().name()?
    )))
}

fn arguments(from: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    from.try_iter()?.map(|a| argument(&a?)).collect()
}

/// A reply as Python sees it. An error within it is an exception's object, not raised.
fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let list = |all: &[Value]| -> PyResult<Bound<'py, PyAny>> {
        let all = all.iter().map(|v| object(py, v)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, all)?.into_any())
    };
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Int(n) => n.into_pyobject(py)?.into_any(),
        Value::Double(x) => x.into_pyobject(py)?.into_any(),
        Value::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Value::Simple(s) => PyBytes::new(py, s.as_bytes()).into_any(),
        Value::Bulk(b) | Value::Verbatim(b) => PyBytes::new(py, b).into_any(),
        Value::Big(n) => py.get_type::<PyInt>().call1((n,))?,
        Value::Error(why) => ServerError::new_err(why.clone()).into_value(py).into_bound(py).into_any(),
        Value::Array(all) | Value::Set(all) | Value::Push(all) => list(all)?,
        Value::Map(pairs) => {
            let map = PyDict::new(py);
            for (key, value) in pairs {
                map.set_item(object(py, key)?, object(py, value)?)?;
            }
            map.into_any()
        }
    })
}

/// A connection to one server.
#[pyclass(subclass, name = "Client", module = "kintsugidb")]
struct PyClient(Mutex<Client>);

impl PyClient {
    fn lock(&self) -> MutexGuard<'_, Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation while other threads of the interpreter may run.
    fn run<T: Send>(&self, py: Python<'_>, f: impl FnOnce(&mut Client) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| f(&mut self.lock())).map_err(raise)
    }
}

#[pymethods]
impl PyClient {
    #[new]
    #[pyo3(signature = (address, *, user="default", password="", mode="one-sided", timeout=10.0))]
    fn new(
        py: Python<'_>,
        address: &str,
        user: &str,
        password: &str,
        mode: &str,
        timeout: f64,
    ) -> PyResult<Self> {
        let mode = match mode {
            "one-sided" => Mode::OneSided,
            "messages" => Mode::Messages,
            other => {
                return Err(PyValueError::new_err(format!(
                    "mode is 'one-sided' or 'messages', not {other:?}"
                )));
            }
        };
        let timeout =
            Duration::try_from_secs_f64(timeout).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let options =
            Options { user: user.into(), password: password.into(), mode, timeout, ..Options::default() };
        let client = py.detach(|| Client::connect_with(address, options)).map_err(raise)?;
        Ok(Self(Mutex::new(client)))
    }

    /// Runs any command; an error reply is raised.
    #[pyo3(signature = (*args))]
    fn command<'py>(&self, py: Python<'py>, args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let args = arguments(args)?;
        if args.is_empty() {
            return Err(PyTypeError::new_err("a command has a name"));
        }
        match self.run(py, |c| c.command(&args))? {
            Value::Error(why) => Err(ServerError::new_err(why)),
            value => object(py, &value),
        }
    }

    /// The value of a key, or None.
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = argument(key)?;
        Ok(self.run(py, |c| c.get(&key))?.map(|v| PyBytes::new(py, &v)))
    }

    /// The values of several keys, of one state.
    #[pyo3(signature = (*keys))]
    fn mget<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys = arguments(keys)?;
        let values = self.run(py, |c| c.mget(&keys))?;
        Ok(values.into_iter().map(|v| v.map(|v| PyBytes::new(py, &v))).collect())
    }

    /// Runs commands, each a sequence, as one transaction: their replies, or None if a watched key had changed.
    fn execute<'py>(&self, py: Python<'py>, commands: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let commands = commands.try_iter()?.map(|c| arguments(&c?)).collect::<PyResult<Vec<_>>>()?;
        if commands.iter().any(Vec::is_empty) {
            return Err(PyTypeError::new_err("a command has a name"));
        }
        let replies = self.run(py, |c| {
            let mut transaction = c.transaction();
            for args in &commands {
                transaction = transaction.command(args);
            }
            transaction.exec()
        })?;
        match replies {
            Some(replies) => object(py, &Value::Array(replies)),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Watches keys for the next transaction.
    #[pyo3(signature = (*keys))]
    fn watch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = arguments(keys)?;
        self.run(py, |c| c.watch(&keys))
    }

    /// Forgets watched keys.
    fn unwatch(&self) {
        self.lock().unwatch();
    }

    /// Whether it reads the server's memory itself.
    #[getter]
    fn is_one_sided(&self) -> bool {
        self.lock().is_one_sided()
    }

    /// What it has done so far.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let c = self.lock().counters();
        let counters = PyDict::new(py);
        for (name, n) in [
            ("one_sided", c.one_sided),
            ("retries", c.retries),
            ("fallbacks", c.fallbacks),
            ("followed", c.followed),
            ("fractures", c.fractures),
            ("prepared", c.prepared),
            ("commands", c.commands),
            ("transactions", c.transactions),
            ("second_rounds", c.second_rounds),
            ("messages_sent", c.messages_sent),
            ("messages_received", c.messages_received),
            ("connects", c.connects),
        ] {
            counters.set_item(name, n)?;
        }
        Ok(counters)
    }
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyClient>()?;
    m.add("Error", m.py().get_type::<KintsugiError>())?;
    m.add("ServerError", m.py().get_type::<ServerError>())
}
