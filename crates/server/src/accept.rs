//! New connections.
use crate::{
    clients::ClientCard,
    conn::Conn,
    letter::Letter,
    native::Io,
    worker::{LISTENER, Worker},
};
use rustix::{
    fd::{AsRawFd, OwnedFd},
    io::Errno,
    net,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

impl Worker {
    pub fn set_accepting(&mut self, on: bool) -> rustix::io::Result<()> {
        if self.accept_paused != on {
            return Ok(());
        }
        self.accept_paused = !on;
        let tcp = self.listeners.tcp.iter().map(|l| rustix::fd::AsFd::as_fd(l));
        let unix = self.listeners.unix.iter().map(|(l, _)| rustix::fd::AsFd::as_fd(l));
        for (i, fd) in tcp.chain(unix).enumerate() {
            if on {
                rustix::io::ioctl_fionbio(fd, true)?;
                self.poller.add_level(fd, LISTENER + i as u64)?;
            } else {
                self.poller.remove(fd)?;
            }
        }
        for (i, fabric) in self.listeners.fabrics.iter().enumerate() {
            if on {
                self.poller.add_level(fabric.fd(), self.fabric_token(i))?;
            } else {
                self.poller.remove(fabric.fd())?;
            }
        }
        Ok(())
    }

    pub fn accept(&mut self, listener: usize) {
        let sockets = self.listeners.tcp.len() + usize::from(self.listeners.unix.is_some());
        if listener >= sockets {
            return self.accept_native(listener - sockets);
        }
        for _ in 0..64 {
            let is_unix = listener >= self.listeners.tcp.len();
            let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
            let accepted = match self.listeners.tcp.get(listener) {
                Some(l) => net::accept_with(l, flags),
                None => match &self.listeners.unix {
                    Some((l, _)) => net::accept_with(l, flags),
                    None => return,
                },
            };
            match accepted {
                Ok(fd) => {
                    if self.shared.clients.len() >= self.config.maxclients {
                        self.stats().rejected.add(1);
                        let _ = net::send(
                            &fd,
                            b"-ERR max number of clients reached\r\n",
                            net::SendFlags::NOSIGNAL,
                        );
                        continue;
                    }
                    self.stats().connections.add(1);
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.outboxes.len();
                    self.post(thread, Letter::Connection { fd, is_unix });
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => {
                    eprintln!("kintsugi: a connection could not be accepted: {e}");
                    // Most likely no file descriptor is left; the next tick tries again.
                    let _ = self.set_accepting(false);
                    return;
                }
            }
        }
    }

    pub fn add_connection(&mut self, fd: OwnedFd, is_unix: bool) {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let (mut addr, mut laddr) = (String::from("?"), String::from("?"));
        if is_unix {
            addr = self.shared.addresses.last().cloned().unwrap_or_default() + ":0";
            laddr.clone_from(&addr);
        } else {
            if let Ok(a) = net::getpeername(&fd).and_then(|a| a.ok_or(Errno::NOTCONN)) {
                addr = std::net::SocketAddr::try_from(a).map_or(addr, |a| a.to_string());
            }
            if let Ok(a) = net::getsockname(&fd) {
                laddr = std::net::SocketAddr::try_from(a).map_or(laddr, |a| a.to_string());
            }
            let _ = net::sockopt::set_tcp_nodelay(&fd, true);
            if self.config.tcp_keepalive > 0 {
                let idle = Duration::from_secs(self.config.tcp_keepalive);
                let _ = net::sockopt::set_socket_keepalive(&fd, true);
                let _ = net::sockopt::set_tcp_keepidle(&fd, idle);
            }
        }
        let card = self.new_card(fd.as_raw_fd(), addr, laddr, is_unix);
        let token = self.conns.place();
        if self.poller.add(&fd, token.to_u64()).is_err() {
            self.conns.free.push(token.index);
            return;
        }
        self.shared.clients.add(card.clone());
        self.conns.live += 1;
        self.conns.put(Box::new(Conn::new(Io::Socket(fd), token, self.outboxes.len(), card)));
        self.with_conn(token, Self::work);
    }

    /// The card of a connection that this thread has taken in.
    pub fn new_card(&self, fd: i32, addr: String, laddr: String, is_unix: bool) -> Arc<ClientCard> {
        Arc::new(ClientCard {
            id: self.shared.clients.next_id(),
            thread: self.me,
            fd,
            addr,
            laddr,
            is_unix,
            created_ms: self.now_ms,
            active_ms: self.now_ms.into(),
            name: Default::default(),
            library: Default::default(),
            resp: 2.into(),
            queued: 0.into(),
            watching: 0.into(),
            waiting_bytes: 0.into(),
            input_bytes: 0.into(),
            no_evict: false.into(),
            last_command: usize::MAX.into(),
            kill: false.into(),
        })
    }
}
