//! The other machine's part in the suite: listens, holds the regions, moves connections and starts processes, as a test of another
//! machine asks ([`crate::far`]). One thread for each control connection; what it holds goes with it.

use crate::far::{ask, put, take, word};
use crate::processes::Process;
use crate::world::{World, accept, gate};
use kintsugidb_fabric::{Connection, Error, Fabric, Mapping};
use rustix::process::Signal;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What one control connection has.
#[derive(Default)]
struct Deputy {
    connection: Option<Box<dyn Connection>>,
    memory: Option<(Arc<Mapping>, Arc<Mapping>)>,
    process: Option<Process>,
    guarding: Option<Arc<AtomicBool>>,
}

/// Serves tests of another machine until it is killed, or until its standard input ends.
pub fn deputy(at: &str) {
    let listener = TcpListener::bind(at).unwrap();
    crate::processes::say(listener.local_addr().unwrap());
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    for socket in listener.incoming() {
        std::thread::spawn(move || serve(socket.unwrap()));
    }
}

fn serve(mut socket: TcpStream) {
    socket.set_nodelay(true).unwrap();
    let mut deputy = Deputy::default();
    while let Ok((what, rest)) = take(&mut socket) {
        let answer = deputy.answer(&mut socket, what, &rest);
        let done = match &answer {
            Ok(Some(bytes)) => put(&mut socket, ask::DONE, &[bytes]),
            Ok(None) => put(&mut socket, ask::NONE, &[]),
            Err(Error::Full) => put(&mut socket, ask::FULL, &[]),
            Err(Error::PeerDead) => put(&mut socket, ask::DEAD, &[]),
            Err(other) => put(&mut socket, ask::FAILED, &[other.to_string().as_bytes()]),
        };
        if done.is_err() {
            break;
        }
    }
    if let Some(guarding) = deputy.guarding {
        guarding.store(false, Ordering::Release);
    }
}

fn fabric(name: &[u8]) -> Fabric {
    let name = String::from_utf8_lossy(name);
    World::fabric_named(&name)
}

impl Deputy {
    fn connection(&mut self) -> Result<&mut Box<dyn Connection>, Error> {
        self.connection.as_mut().ok_or(Error::Protocol("the deputy has no connection"))
    }

    fn process(&self) -> Result<&Process, Error> {
        self.process.as_ref().ok_or(Error::Protocol("the deputy has no process"))
    }

    /// Answers one request. `None`: nothing, now.
    fn answer(&mut self, socket: &mut TcpStream, what: u8, rest: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let done = Ok(Some(Vec::new()));
        match what {
            ask::LISTEN => {
                let (exports, read, write) = World::exports();
                let mut listener = World::new(fabric(rest)).listen();
                let address = listener.address().to_string();
                put(socket, ask::DONE, &[address.as_bytes()]).map_err(|_| Error::PeerDead)?;
                let accepted = accept(&mut *listener, exports);
                self.connection = Some(accepted.connection);
                self.memory = Some((read, write));
                Ok(Some(accepted.id.to_le_bytes().to_vec()))
            }
            ask::GUARD => {
                let mut listener = World::new(fabric(rest)).listen();
                let address = listener.address().to_string();
                let guarding = Arc::new(AtomicBool::new(true));
                self.guarding = Some(guarding.clone());
                std::thread::spawn(move || {
                    let mut gate = gate(Vec::new());
                    while guarding.load(Ordering::Acquire) {
                        let _ = listener.accept(&mut gate).unwrap();
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                Ok(Some(address.into_bytes()))
            }
            ask::SEND => self.connection()?.send(rest).and(done),
            ask::RECEIVE => {
                let mut message = Vec::new();
                Ok(self.connection()?.receive(&mut message)?.map(|_| message))
            }
            ask::WAIT => {
                let something = self.connection()?.wait(Duration::from_millis(word(rest, 0)))?;
                Ok(something.then(Vec::new))
            }
            ask::POLL => self.connection()?.poll(&mut Vec::new()).map(|_| Some(Vec::new())),
            ask::DROP => {
                self.connection = None;
                done
            }
            ask::STORE => {
                let (read, _) = self.memory.as_ref().ok_or(Error::Protocol("no regions"))?;
                let words = read.range(word(rest, 0), rest.len() as u64 - 8)?;
                for (i, to) in words.iter().enumerate() {
                    to.store(word(rest, i + 1), Ordering::Release);
                }
                done
            }
            ask::LOAD => {
                let (_, write) = self.memory.as_ref().ok_or(Error::Protocol("no regions"))?;
                let mut bytes = vec![0; word(rest, 1) as usize];
                write.load_bytes(word(rest, 0), &mut bytes)?;
                Ok(Some(bytes))
            }
            ask::START => {
                let text = String::from_utf8_lossy(rest);
                let (role, address) = text.rsplit_once(' ').ok_or(Error::Protocol("no role"))?;
                self.process = Some(Process::here(role, address));
                done
            }
            ask::HEAR => Ok(Some(self.process()?.hear().into_bytes())),
            ask::SIGNAL => {
                let number = rest.try_into().map_err(|_| Error::Protocol("no signal"))?;
                let signal = Signal::from_named_raw(i32::from_le_bytes(number));
                self.process()?.signal(signal.ok_or(Error::Protocol("no such signal"))?);
                done
            }
            _ => Err(Error::Protocol("the deputy is asked for something unknown")),
        }
    }
}
