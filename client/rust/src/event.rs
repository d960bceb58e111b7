// SPDX-License-Identifier: LGPL-2.1-or-later

//! Events, and how their records are written.

use std::sync::{atomic::Ordering::Relaxed, Arc, RwLockReadGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io, thread};

use crate::connection::{read, Connection, Handle, Registration, State, Trace, World};
use crate::packets::{Refusal, DESCRIPTION_MAX, PAYLOAD_MAX, TRACED_ONLY};
use crate::{status::Status, sys, Record};

/// How often all writers look for the socket of a trace that has not come yet.
const LOOKS_MAX: u32 = 20;

/// Why a record was not written although its event is on.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// It is larger than 4064 bytes, or than the whole queue. It is counted as lost.
    TooBig,
    /// The daemon, which is the tracer here, has not read the earlier records. It is counted as lost.
    QueueFull,
    /// The kernel has refused it: it does not fit the event's description; or the daemon has gone.
    Failed(io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            WriteError::TooBig => write!(to, "userev: the record is too big: shorten its texts, it has {PAYLOAD_MAX} bytes at most"),
            WriteError::QueueFull => to.write_str("userev: the queue is full: the daemon has not read the earlier records"),
            WriteError::Failed(error) => write!(to, "userev: the record was not written: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}

/// An event that is registered with the daemon, or will be when there is one. Dropped, it is released.
#[derive(Debug)]
pub struct Event {
    status: Arc<Status>,
    target: Target,
}

/// An event of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub handle: Arc<Handle>,
    pub event: usize,
}

impl Connection {
    /// Asks for an event, described as in userevd-protocol(7): `shop_request u32 status; __rel_loc char[] path`. Fails if the daemon
    /// refuses it. Without a daemon it succeeds, and [`Event::refusal`] says later whether the event was refused. It waits for the answer,
    /// two seconds at most, and not again while the daemon does not answer.
    pub fn register(&self, description: &str) -> Result<Event, Refusal> {
        self.register_with(description, 0)
    }

    /// Like [`register`](Connection::register), with flags: [`PERSIST`](crate::PERSIST) and [`MULTI_FORMAT`](crate::MULTI_FORMAT).
    pub fn register_with(&self, description: &str, flags: u16) -> Result<Event, Refusal> {
        if description.len() > DESCRIPTION_MAX {
            return Err(Refusal::new(10, b"the description is longer than 511 bytes: shorten its names, or use fewer fields"));
        }
        let status = Arc::new(Status::unregistered());
        let add = |state: &mut State| state.add(Box::new(status.clone()), description.into(), flags);
        let target = Target { event: self.handle.change_connected(add), handle: self.handle.clone() };
        let event = Event { status, target };
        event.target.wait();
        event.refusal().map_or(Ok(event), Err)
    }
}

impl Event {
    /// Whether the event is traced.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.status.test() && self.target.is_current(&self.status)
    }

    /// Writes a record if the event is on: the payload is its fields in their order, without padding. It never waits. `Ok(false)`: the
    /// event is off.
    pub fn write(&self, payload: &[u8]) -> Result<bool, WriteError> {
        if !self.is_on() {
            return Ok(false);
        }
        self.target.write([&[0; 4][..], payload].concat())
    }

    /// Begins a record that is built field by field; None if the event is off.
    #[inline(always)]
    pub fn begin(&self) -> Option<Record<'_>> {
        self.is_on().then(|| Record::new(self.target.clone()))
    }

    /// The daemon's refusal, if it came after [`register`](Connection::register).
    pub fn refusal(&self) -> Option<Refusal> {
        self.target.refusal()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.target.handle.change(|state| state.release(self.target.event));
    }
}

impl Target {
    pub fn wait(&self) {
        let is_answered =
            |state: &State| state.events.get(&self.event).map_or(true, |event| event.place.is_some() || event.refusal.is_some());
        self.handle.wait(|state| state.is_tried() && !state.is_up || is_answered(state));
    }

    pub fn refusal(&self) -> Option<Refusal> {
        self.handle.of(&read()).events.get(&self.event)?.refusal.clone()
    }

    /// For an event that passed the test: whether a daemon updates its page. If not, a child that was forked connects by itself.
    #[cold]
    pub fn is_current(&self, status: &Status) -> bool {
        let is_abandoned = status.is_abandoned();
        if is_abandoned && self.handle.of(&read()).has_no_reader() {
            self.handle.change_connected(|_| ());
        }
        !is_abandoned
    }

    /// Takes four bytes for the index, and the payload.
    pub fn write(&self, mut record: Vec<u8>) -> Result<bool, WriteError> {
        record.resize(record.len().max(5), 0); // before Linux 6.4 an empty payload is refused
        if self.handle.of(&read()).has_no_reader() {
            self.handle.change_connected(|_| ());
        }
        let (mut written, mut done, mut looks) = (false, 0, 0);
        loop {
            let world = read();
            let state = self.handle.of(&world);
            if record.len() - 4 > PAYLOAD_MAX {
                return self.lose(WriteError::TooBig, world);
            }
            let (description, place) = match state.events.get(&self.event) {
                Some(Registration { description, place: Some(place), .. }) => (description, place),
                _ => return Ok(written),
            };
            let which = if state.is_traced { state.page.traces(place.bit) } else { 0 };
            for (i, trace) in state.traces.iter().enumerate() {
                let is_wanted = (which & !done) >> i & 1 != 0;
                if is_wanted && matches!(trace, Some(trace) if trace.write(description, &record[4..])) {
                    (written, done) = (true, done | 1 << i);
                }
            }
            // The socket of a new trace is on its way to the thread that reads.
            if which & !done & 0xf != 0 && looks < LOOKS_MAX && state.looks.fetch_add(1, Relaxed) < LOOKS_MAX {
                drop(world);
                looks += 1;
                thread::sleep(Duration::from_micros(50));
                continue;
            }
            if which & TRACED_ONLY != 0 {
                return Ok(written);
            }
            record[..4].copy_from_slice(&place.index.to_ne_bytes());
            return place.stream.write(&record).map(|()| true).or_else(|error| match error.raw_os_error() {
                Some(sys::EBADF) => Ok(written), // not traced any more
                Some(sys::EAGAIN | sys::ENOBUFS) => self.lose(WriteError::QueueFull, world),
                Some(sys::EMSGSIZE) => self.lose(WriteError::TooBig, world),
                _ => Err(WriteError::Failed(error)),
            });
        }
    }

    /// Counts a lost record, and now and then reports them.
    fn lose(&self, error: WriteError, world: RwLockReadGuard<'_, World>) -> Result<bool, WriteError> {
        drop(world);
        self.handle.change(|state| {
            state.lost[matches!(error, WriteError::TooBig) as usize] += 1;
            state.report_losses();
        });
        Err(error)
    }
}

impl Trace {
    /// False if nothing reads the trace.
    fn write(&self, description: &str, payload: &[u8]) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let lost = self.lost.swap(0, Relaxed);
        let length = (description.len() as u32).to_ne_bytes();
        let record = [&now.to_ne_bytes()[..], &lost.to_ne_bytes(), &length, description.as_bytes(), payload].concat();
        let result = self.socket.write(&record).map_err(|error| error.raw_os_error());
        let is_lost = matches!(result, Err(Some(sys::EAGAIN | sys::ENOBUFS | sys::ENOMEM | sys::EMSGSIZE)));
        self.lost.fetch_add(if is_lost { lost + 1 } else { 0 }, Relaxed);
        is_lost || result.is_ok()
    }
}
