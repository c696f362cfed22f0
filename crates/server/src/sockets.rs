//! Connections of a thread: reading, parsing, sending, closing.
use crate::{
    conn::Conn,
    mailbox::Token,
    native::Io,
    slices::recycle,
    worker::{READ_SIZE, Worker},
};
use rustix::{io::Errno, net};
use std::sync::atomic::Ordering;

impl Worker {
    /// Reads and works on requests as far as the connection may go.
    pub fn work(&mut self, conn: &mut Conn) {
        if conn.at < conn.input.len() {
            let input = std::mem::take(&mut conn.input);
            let mut at = conn.at;
            self.parse(conn, &input, &mut at);
            conn.input = input;
            conn.at = at;
            conn.trim_input();
        }
        if let Io::Native(_) = conn.io {
            self.work_native(conn);
        } else if conn.readable && conn.may_go_on(self.config.output_soft.0 as usize) {
            self.read(conn);
        }
    }

    pub fn read(&mut self, conn: &mut Conn) {
        let Io::Socket(fd) = &conn.io else { return };
        let direct = conn.input.is_empty();
        let mut buffer = if direct {
            std::mem::take(&mut self.read_buffer)
        } else {
            // At most twice what has arrived, whatever length was declared.
            let room = conn
                .parser
                .wants(conn.input.len() - conn.at)
                .clamp(READ_SIZE / 4, conn.input.len().max(READ_SIZE));
            conn.input.reserve(room);
            std::mem::take(&mut conn.input)
        };
        let room = buffer.capacity() - buffer.len();
        let n = net::recv(fd, rustix::buffer::spare_capacity(&mut buffer), net::RecvFlags::DONTWAIT);
        let mut at = conn.at;
        match n.map(|(n, _)| n) {
            Ok(0) => {
                conn.readable = false;
                conn.ended = true;
                self.parse(conn, &buffer, &mut at);
                // What a barrier holds up is still worked on; otherwise nothing more will come.
                conn.closing |= conn.pending.is_none() && !conn.is_waiting();
            }
            Ok(n) => {
                // A short read has emptied the socket; unless the peer ended, an edge will tell of more.
                if n < room && !conn.ended {
                    conn.readable = false;
                }
                self.stats().bytes_in.add(n as u64);
                conn.card.active_ms.store(self.now_ms, Ordering::Relaxed);
                self.parse(conn, &buffer, &mut at);
                if conn.readable && !conn.ready {
                    conn.ready = true;
                    self.ready.push(conn.token);
                }
            }
            Err(Errno::AGAIN) => conn.readable = false,
            Err(Errno::INTR) => {}
            Err(_) => {
                conn.readable = false;
                conn.ended = true;
                conn.closing = true;
            }
        }
        if direct {
            conn.input.extend_from_slice(&buffer[at..]);
            conn.at = 0;
            buffer.clear();
            self.read_buffer = buffer;
        } else {
            conn.input = buffer;
            conn.at = at;
            conn.trim_input();
        }
        conn.card.input_bytes.store(conn.input.len(), Ordering::Relaxed);
    }

    pub fn parse(&mut self, conn: &mut Conn, input: &[u8], at: &mut usize) {
        let mut parser = std::mem::take(&mut conn.parser);
        let mut pool = std::mem::take(&mut self.args);
        let soft = self.config.output_soft.0 as usize;
        while conn.may_go_on(soft) {
            match parser.parse(&input[*at..], &self.limits) {
                Ok(Some(n)) => {
                    let mut args = recycle(std::mem::take(&mut pool));
                    args.extend(parser.args(&input[*at..]));
                    let taken = args.is_empty() || self.request(conn, &args);
                    pool = recycle(args);
                    if !taken {
                        break;
                    }
                    *at += n;
                }
                Ok(None) => break,
                Err(e) => {
                    self.stats().protocol_errors.add(1);
                    conn.out.error(&e.to_string());
                    conn.closing = true;
                }
            }
        }
        self.args = pool;
        conn.parser = parser;
    }

    /// Works on what was held up.
    pub fn go_on(&mut self, conn: &mut Conn) {
        if (conn.at < conn.input.len() || conn.readable) && conn.may_go_on(self.config.output_soft.0 as usize)
        {
            self.work(conn);
        }
        conn.closing |= conn.ended && !conn.readable && conn.pending.is_none() && !conn.is_waiting();
    }

    pub fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            let Some(mut conn) = self.conns.take(token) else { continue };
            conn.dirty = false;
            let before = conn.waiting_bytes();
            let sent = conn.flush();
            let left = conn.waiting_bytes();
            self.stats().bytes_out.add(before.saturating_sub(left) as u64);
            let all = matches!(sent, Ok(true));
            let done = conn.closing && all && !conn.is_waiting() && conn.pending.is_none();
            let too_much = left as u64 > self.config.output_hard.0;
            if done || sent.is_err() || too_much {
                self.close(conn);
                continue;
            }
            self.natives.wake_to_send(&mut conn);
            if conn.writing == all {
                conn.writing = !all;
                if let Io::Socket(fd) = &conn.io {
                    let _ = self.poller.set_writing(fd, token.to_u64(), conn.writing);
                }
            }
            conn.card.waiting_bytes.store(left, Ordering::Relaxed);
            // Room was made: go on with requests that were left unread because of their replies.
            let soft = self.config.output_soft.0 as usize;
            if !conn.ready
                && (conn.at < conn.input.len() || conn.readable)
                && before > left
                && before >= soft
                && conn.may_go_on(soft)
            {
                conn.ready = true;
                self.ready.push(token);
            }
            self.conns.put(conn);
        }
        self.dirty = dirty;
    }

    pub fn close(&mut self, conn: Box<Conn>) {
        self.shared.clients.remove(conn.card.id);
        let token = conn.token;
        self.end_native(token, conn.io);
        self.conns.remove(token);
    }

    /// Closes connections that CLIENT KILL marked.
    pub fn close_killed(&mut self) {
        for token in self.conns.tokens() {
            self.close_if(token, |conn| conn.card.kill.load(Ordering::Relaxed));
        }
    }

    pub fn close_if(&mut self, token: Token, f: impl FnOnce(&Conn) -> bool) {
        if let Some(conn) = self.conns.take(token) {
            if f(&conn) { self.close(conn) } else { self.conns.put(conn) }
        }
    }
}
