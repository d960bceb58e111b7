// SPDX-License-Identifier: LGPL-2.1-or-later

//! Connections with the daemon. Everything that changes is under one lock of the process: writers of records share it, all others have it
//! alone, and nothing waits while it has it. fork(2) takes it, too, so that the child finds everything whole, and the lock free.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::unix::{io::AsFd, io::AsRawFd, io::OwnedFd, net::UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{cell::Cell, env, fmt, fs::File, io, net::Shutdown, ops::Deref, path::PathBuf};

use crate::{packets::*, status::Page, status::Status, sys, sys::Stream};

const PATHS: [&str; 2] = ["/run/userevd/client/userevd.sock", "/run/userevd.sock"];
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why there is no daemon at the moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Connecting, or another call of the system, failed: a sentence.
    Failed(String),
    /// The daemon has refused the connection.
    Refused(Refusal),
    /// The daemon has sent a malformed packet, or a file that is not safe to use.
    BadPacket,
    /// The daemon has not answered yet, or has ended the connection.
    NotConnected,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::Failed(why) => write!(to, "userev: {why}"),
            Error::Refused(refusal) => refusal.fmt(to),
            Error::BadPacket => to.write_str("userev: the daemon has sent a malformed packet, or a file that is not safe to use"),
            Error::NotConnected => to.write_str("userev: the daemon has not answered yet, or has ended the connection"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Failed(error.to_string())
    }
}

/// All connections of the process.
pub(crate) struct World {
    connections: Vec<Option<Box<State>>>,
    /// The connection of events that are declared by [`event!`](macro@crate::event).
    common: Option<Arc<Handle>>,
}

static WORLD: RwLock<World> = RwLock::new(World { connections: Vec::new(), common: None });
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static HELD: Cell<Option<RwLockWriteGuard<'static, World>>> = Cell::new(None);
}

pub(crate) fn read() -> RwLockReadGuard<'static, World> {
    WORLD.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, World> {
    WORLD.write().unwrap_or_else(PoisonError::into_inner)
}

// A thread that is ending has no such variables any more: it forks without the lock.
extern "C" fn before_fork() {
    let _ = HELD.try_with(|held| held.set(Some(write())));
}

extern "C" fn after_fork() {
    let _ = HELD.try_with(|held| held.set(None));
}

extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Relaxed);
    after_fork();
}

/// The state of a connection lives as long as its events, its thread or the connection itself.
#[derive(Debug)]
pub(crate) struct Handle(usize);

impl Drop for Handle {
    fn drop(&mut self) {
        let _state = write().connections[self.0].take(); // dropped without the lock
    }
}

impl Handle {
    pub fn of<'a>(&self, world: &'a World) -> &'a State {
        world.connections[self.0].as_deref().expect("a handle's state lives")
    }

    /// Calls `change` with the state, alone.
    pub fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut world = write();
        let state = world.connections[self.0].as_mut().expect("a handle's state lives");
        // In a child that was forked, the connection is the parent's, and there is no thread that reads.
        if state.forks != FORKS.load(Relaxed) {
            state.end(Error::NotConnected);
            // The parent reports its own losses.
            (state.forks, state.thread, state.reported) = (FORKS.load(Relaxed), None, state.lost);
        }
        change(state)
    }

    /// The same, for what needs the daemon: there is a thread that reads from now on.
    pub fn change_connected<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        self.change(|state| {
            if state.has_no_reader() {
                let (thread, handle) = (thread::Builder::new().name("userev".into()), self.clone());
                match sys::without_signals(|| thread.spawn(move || handle.run())) {
                    Ok(thread) => (state.thread, state.error) = (Some(thread.thread().clone()), None),
                    Err(error) => state.error = Some(error.into()),
                }
            }
            change(state)
        })
    }

    /// The thread that reads. It is the only one that does, and connects again when the connection has ended.
    fn run(self: Arc<Self>) {
        let mut pause = Duration::ZERO;
        loop {
            let began = Instant::now();
            let error = self.session().err().unwrap_or(Error::NotConnected);
            // A connection that ended at once counts as a failed attempt.
            pause = if began.elapsed() < Duration::from_secs(1) { (2 * pause).clamp(PAUSE_MIN, PAUSE_MAX) } else { PAUSE_MIN / 5 };
            if self.change(|state| state.end(error)) {
                return;
            }
            thread::park_timeout(pause);
        }
    }

    /// One connection, until its end.
    fn session(self: &Arc<Self>) -> Result<(), Error> {
        let paths = self.change(|state| state.paths.clone());
        let connection = connect(&paths)?;
        let fd = connection.as_raw_fd(); // only this thread closes it
        self.change(|state| {
            state.fd = Some(connection);
            let understood = FEATURE_PERSIST | FEATURE_MULTI_FORMAT | FEATURE_OWN_TRACES;
            state.send(KIND_HELLO, KIND_WELCOME, &[understood.to_le_bytes(), [0; 8]].concat(), Vec::new())
        })?;
        let mut data = vec![0; PACKET_MAX];
        loop {
            let (size, fds) = sys::receive(fd, &mut data)?;
            self.change(|state| state.take(&data[..size], fds))?;
        }
    }

    /// Waits until `is_done`, not longer than the daemon may take to answer, and not again before it has answered.
    pub fn wait(self: &Arc<Self>, is_done: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_over = self.change_connected(|state| {
                let is_done = state.hangs || is_done(state);
                state.hangs |= !is_done && left.is_zero();
                let is_over = is_done || state.hangs;
                state.waiting.extend((!is_over).then(thread::current));
                is_over
            });
            if is_over {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

/// The error is the first, or the first of a file that exists.
fn connect(paths: &[PathBuf]) -> Result<UnixStream, Error> {
    let mut errors = Vec::new();
    for path in paths {
        match sys::connect_to(path, ANSWER_TIMEOUT) {
            Ok(fd) => return Ok(fd),
            Err(error) => errors.push((error.kind() == io::ErrorKind::NotFound, path, error)),
        }
    }
    let (_, path, error) = errors.iter().min_by_key(|(is_missing, ..)| *is_missing).ok_or(Error::NotConnected)?;
    Err(Error::Failed(format!("connecting to {} failed: {error}", path.display())))
}

/// Where an event's bit is, and where its records go.
pub(crate) struct Place {
    pub bit: u32,
    pub index: u32,
    pub stream: Arc<Stream>,
}

/// Of an event of a connection, or of a static.
pub(crate) type StatusOf = Box<dyn Deref<Target = Status> + Send + Sync>;

pub(crate) struct Registration {
    status: StatusOf,
    pub description: String,
    flags: u16,
    pub place: Option<Place>,
    pub refusal: Option<Refusal>,
    is_released: bool,
}

impl Registration {
    fn set_nowhere(&mut self) {
        self.status.set_off();
        self.place = None;
    }
}

/// A trace of the tenant's own: a socket that another program reads.
pub(crate) struct Trace {
    pub socket: Stream,
    pub lost: AtomicU32,
}

#[derive(Default)]
pub(crate) struct State {
    pub page: Page,
    paths: Vec<PathBuf>,
    thread: Option<Thread>,
    forks: u32,
    fd: Option<UnixStream>,
    pub is_up: bool,
    pub is_closed: bool,
    hangs: bool,
    pub error: Option<Error>,         // of the last attempt to connect
    serial: u32,                      // of the last request
    asked: Option<(u16, Vec<usize>)>, // if that has no answer: the answer's kind, and events
    pub events: BTreeMap<usize, Registration>,
    last_event: usize,
    unasked: VecDeque<usize>,
    released: Vec<u32>,                 // bits
    streams: HashMap<u32, Arc<Stream>>, // of this connection
    outdated: Vec<Arc<Stream>>,         // of former ones, open until all events are granted again
    pub is_traced: bool,                // behind the page are bits and bytes for traces of the tenant's own
    pub traces: [Option<Trace>; TRACES_MAX],
    pub looks: AtomicU32,
    pub lost: [u64; 2], // because a queue was full, and because they were too big
    reported: [u64; 2],
    reported_at: Option<Instant>,
    waiting: Vec<Thread>,
}

impl State {
    /// True before the daemon is needed, also in a child that was forked.
    pub fn has_no_reader(&self) -> bool {
        !self.is_closed && (self.thread.is_none() || self.forks != FORKS.load(Relaxed))
    }

    /// Whether an attempt to connect has ended, or succeeded.
    pub fn is_tried(&self) -> bool {
        self.is_up || self.error.is_some()
    }

    /// Closes the connection: events go on, until their page is abandoned or a new daemon has granted them. True when all is over.
    fn end(&mut self, error: Error) -> bool {
        (self.fd, self.is_up, self.error, self.asked) = (None, false, Some(error), None);
        self.released.clear();
        self.outdated.extend(self.streams.drain().map(|(_, stream)| stream));
        self.outdated.retain(|stream| Arc::strong_count(stream) > 1);
        self.events.retain(|_, event| !event.is_released);
        // A refused one, too: the next daemon may have room.
        self.unasked = self.events.keys().copied().collect();
        if self.is_closed {
            self.outdated.clear();
            self.traces = Default::default();
        }
        self.waiting.drain(..).for_each(|thread| thread.unpark());
        self.is_closed
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.report_losses();
        self.events.values_mut().for_each(Registration::set_nowhere);
        self.shut_down();
        self.thread.iter().for_each(Thread::unpark);
    }

    /// Sends a request, and remembers it until its answer.
    fn send(&mut self, kind: u16, answer: u16, body: &[u8], events: Vec<usize>) -> Result<(), Error> {
        let fd = self.fd.as_ref().filter(|_| !self.is_closed).ok_or(Error::NotConnected)?;
        self.serial = self.serial.wrapping_add(1).max(1);
        sys::send_packet(fd.as_fd(), &encode(kind, self.serial, body))?;
        self.asked = Some((answer, events));
        Ok(())
    }

    /// Sends the next request, or closes streams without events. There is one request at a time, so that neither side waits for room while
    /// the other one does.
    pub fn ask(&mut self) {
        if !self.is_up || self.asked.is_some() {
            return;
        }
        let result = if !self.released.is_empty() {
            let count = self.released.len().min(BATCH);
            let bits = self.released.drain(..count).flat_map(u32::to_le_bytes);
            let body: Vec<u8> = (count as u32).to_le_bytes().into_iter().chain(bits).collect();
            self.send(KIND_RELEASE, KIND_RELEASED, &body, Vec::new())
        } else if !self.unasked.is_empty() {
            let count = self.unasked.len().min(BATCH);
            let events: Vec<usize> = self.unasked.drain(..count).collect();
            let mut body = (count as u32).to_le_bytes().to_vec();
            events.iter().map(|at| &self.events[at]).for_each(|event| append_item(&mut body, event.flags, &event.description));
            self.send(KIND_REGISTER, KIND_REGISTERED, &body, events)
        } else {
            // They are charged as long as they are open.
            self.streams.retain(|_, stream| Arc::strong_count(stream) > 1);
            self.outdated.clear();
            Ok(())
        };
        if result.is_err() {
            self.shut_down(); // all events are registered again on the next connection
        }
    }

    fn shut_down(&self) {
        self.fd.iter().for_each(|fd| drop(fd.shutdown(Shutdown::Both)));
    }

    fn take(&mut self, data: &[u8], fds: Vec<OwnedFd>) -> Result<(), Error> {
        (!self.is_closed).then(|| ()).ok_or(Error::NotConnected)?; // what is still queued has no effect
        let (kind, serial, streams, mut body) = decode(data)?;
        let mut fds = fds.into_iter();
        if kind == KIND_ERROR {
            let (number, length) = (body.u16()?, body.u16()?);
            return Err(Error::Refused(Refusal::new(number, body.bytes(length.into())?)));
        }
        if (kind, serial) == (KIND_TRACED, 0) {
            let trace = self.traces.get_mut(body.u32()? as usize).ok_or(Error::BadPacket)?;
            *trace = Some(Trace { socket: fds.next().and_then(Stream::new).ok_or(Error::BadPacket)?, lost: AtomicU32::new(0) });
            self.looks.store(0, Relaxed);
            return Ok(());
        }
        let distance = serial.wrapping_sub(self.serial) as i32;
        if distance < 0 || distance == 0 && self.asked.is_none() {
            return Ok(()); // the answer of a daemon that was replaced comes twice
        }
        let (_, events) = self.asked.take().filter(|(answer, _)| distance == 0 && *answer == kind).ok_or(Error::BadPacket)?;
        if kind == KIND_WELCOME {
            self.take_welcome(&mut body, fds.next().ok_or(Error::BadPacket)?)?;
        }
        for number in streams {
            let stream = fds.next().and_then(Stream::new).ok_or(Error::BadPacket)?;
            self.outdated.extend(self.streams.insert(number, Arc::new(stream)));
        }
        if kind == KIND_REGISTERED {
            self.take_registered(body, events)?;
        }
        self.ask();
        self.waiting.drain(..).for_each(|thread| thread.unpark());
        Ok(())
    }

    fn take_welcome(&mut self, body: &mut Cursor, page: OwnedFd) -> Result<(), Error> {
        let (_features, bytes, page) = (body.bytes(8)?, body.u32()?, File::from(page));
        let connection = self.fd.as_ref().filter(|_| bytes as usize == PAGE_BYTES).ok_or(Error::BadPacket)?;
        let size = sys::page_size(&page, connection.as_fd()).ok_or(Error::BadPacket)?;
        // The events' places are the last daemon's until they are granted again.
        self.events.values_mut().for_each(Registration::set_nowhere);
        self.page.map(page.as_fd(), size)?;
        self.traces = Default::default();
        self.is_traced = size == PAGE_FILE_BYTES;
        self.is_up = true;
        Ok(())
    }

    fn take_registered(&mut self, body: Cursor, events: Vec<usize>) -> Result<(), Error> {
        let answers = decode_registered(body)?;
        if answers.len() != events.len() {
            return Err(Error::BadPacket);
        }
        for ((refusal, text, [bit, stream, index]), at) in answers.into_iter().zip(events) {
            let event = self.events.get_mut(&at).ok_or(Error::BadPacket)?;
            if refusal != 0 {
                event.refusal = Some(Refusal::new(refusal, text));
            } else {
                let stream = self.streams.get(&stream).filter(|_| bit != 0 && (bit as usize) < 8 * PAGE_BYTES).ok_or(Error::BadPacket)?;
                (event.place, event.refusal) = (Some(Place { bit, index, stream: stream.clone() }), None);
                self.released.retain(|other| *other != bit); // of another one with the same bit
                event.status.set(&self.page, bit);
            }
            if event.is_released {
                self.give_back(at);
            }
        }
        self.hangs = false;
        Ok(())
    }

    pub fn add(&mut self, status: StatusOf, description: String, flags: u16) -> usize {
        status.set_off();
        let event = Registration { status, description, flags, place: None, refusal: None, is_released: false };
        self.last_event += 1;
        self.events.insert(self.last_event, event);
        self.unasked.push_back(self.last_event);
        self.ask();
        self.last_event
    }

    /// The event is off from now on. One that is being registered is given back when the answer comes.
    pub fn release(&mut self, at: usize) {
        if matches!(&self.asked, Some((_, events)) if events.contains(&at)) {
            let event = self.events.get_mut(&at);
            event.into_iter().for_each(|event| (event.is_released, event.place) = (true, None));
        } else {
            self.unasked.retain(|other| *other != at);
            self.give_back(at);
            self.ask();
        }
    }

    /// Releases the event, unless another one of this connection is the same.
    fn give_back(&mut self, at: usize) {
        let bit = self.events.remove(&at).and_then(|event| event.place).map(|place| place.bit);
        let is_shared = self.events.values().any(|other| other.place.as_ref().map(|place| place.bit) == bit);
        self.released.extend(bit.filter(|_| !is_shared));
    }

    /// Reports lost records, once a second or at the end.
    pub fn report_losses(&mut self) {
        let is_due = self.is_closed || self.reported_at.map_or(true, |at| at.elapsed() >= Duration::from_secs(1));
        if let (Some(fd), true, true) = (&self.fd, self.is_up && is_due, self.lost != self.reported) {
            let body = [0, 1].map(|i| (self.lost[i] - self.reported[i]).to_le_bytes()).concat();
            self.reported_at = Some(Instant::now());
            if sys::send_packet(fd.as_fd(), &encode(KIND_LOST, 0, &body)).is_ok() {
                self.reported = self.lost;
            }
        }
    }
}

/// The lock, to open a connection.
fn first_write() -> RwLockWriteGuard<'static, World> {
    static KNOWS_FORKS: AtomicBool = AtomicBool::new(false);
    if !KNOWS_FORKS.swap(true, Relaxed) {
        sys::at_fork(before_fork, after_fork, after_fork_in_child);
    }
    write()
}

/// Adds a connection to `world`. It begins to connect when it is first needed.
fn open(world: &mut World) -> io::Result<Arc<Handle>> {
    let path = env::var_os("USEREV_SOCKET").filter(|path| !path.is_empty() && !sys::is_privileged());
    let state = State {
        page: Page::reserve()?,
        paths: path.map_or_else(|| PATHS.map(PathBuf::from).to_vec(), |path| vec![path.into()]),
        forks: FORKS.load(Relaxed),
        ..State::default()
    };
    world.connections.push(Some(state.into()));
    Ok(Arc::new(Handle(world.connections.len() - 1)))
}

/// The connection of the process's declared events, which is never closed.
pub(crate) fn common() -> io::Result<Arc<Handle>> {
    if let Some(handle) = &read().common {
        return Ok(handle.clone());
    }
    let mut world = first_write();
    let handle = world.common.clone().map_or_else(|| open(&mut world), Ok)?;
    Ok(world.common.insert(handle).clone())
}

/// A connection with the daemon, made again by a thread whenever that was restarted. Dropped, it releases its events, which are off then.
#[derive(Debug)]
pub struct Connection {
    pub(crate) handle: Arc<Handle>,
}

impl Connection {
    /// Connects in the background, and waits for the first attempt, two seconds at most. Fails only for lack of memory: without a daemon
    /// events are off, and [`error`](Connection::error) says why.
    pub fn open() -> io::Result<Connection> {
        let handle = open(&mut first_write())?;
        handle.wait(State::is_tried);
        Ok(Connection { handle })
    }

    /// The connection of the events that [`event!`](macro@crate::event) declares. Nothing closes it.
    pub fn common() -> io::Result<Connection> {
        let handle = common()?;
        handle.wait(State::is_tried);
        Ok(Connection { handle })
    }

    /// Why there is no daemon; None if there is one.
    pub fn error(&self) -> Option<Error> {
        let world = read();
        let state = self.handle.of(&world);
        (!state.is_up).then(|| state.error.clone().unwrap_or(Error::NotConnected))
    }

    /// How many records were lost because a queue was full, and because they were too big.
    pub fn lost(&self) -> [u64; 2] {
        self.handle.of(&read()).lost
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let common = read().common.clone();
        if common.map_or(true, |common| !Arc::ptr_eq(&common, &self.handle)) {
            self.handle.change(State::close);
        }
    }
}
