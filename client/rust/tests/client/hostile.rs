// SPDX-License-Identifier: GPL-2.0-or-later

//! Daemons that are not to be trusted. Nothing that they do ends the program, or makes it wait for long.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::raw::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, FromRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{eventually, open, Scratch};

const AF_UNIX: c_int = 1;
const SOCK_STREAM: c_int = 1;
const SOCK_SEQPACKET: c_int = 5;
const WELCOME: u16 = 2;
const REGISTERED: u16 = 4;
const TRACED: u16 = 16;

#[repr(C)]
struct Piece(*const c_void, usize);

#[repr(C)]
struct Message {
    name: *mut c_void,
    name_length: u32,
    pieces: *const Piece,
    piece_count: usize,
    control: *const c_void,
    control_length: usize,
    flags: c_int,
}

extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut [c_int; 2]) -> c_int;
    fn bind(fd: c_int, address: *const c_void, length: u32) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut c_void, length: *mut u32) -> c_int;
    fn recv(fd: c_int, data: *mut c_void, length: usize, flags: c_int) -> isize;
    fn sendmsg(fd: c_int, message: *const Message, flags: c_int) -> isize;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
}

/// Sends a packet with file descriptors, the first of which belong to the numbers of streams behind them.
#[derive(Clone, Default)]
struct Reply {
    kind: u16,
    streams: Vec<u32>,
    body: Vec<u8>,
    fds: Vec<Arc<File>>,
    serial_add: u32,
    raw: Option<Vec<u8>>,
    delay: Duration,
}

impl Reply {
    fn send(&self, fd: c_int, serial: u32) {
        let streams: Vec<u8> = self.streams.iter().flat_map(|number| number.to_le_bytes()).collect();
        let size = (16 + streams.len() + self.body.len()) as u32;
        let serial = if self.kind == TRACED { 0 } else { serial.wrapping_add(self.serial_add) };
        let kind_and_count = [&self.kind.to_le_bytes()[..], &[0, self.streams.len() as u8]].concat();
        let packet = [&size.to_le_bytes()[..], &kind_and_count, &serial.to_le_bytes(), &[0; 4], &streams, &self.body].concat();
        let packet = self.raw.clone().unwrap_or(packet);
        let length = 16 + 4 * self.fds.len();
        let mut control = vec![length as u64, 1 | 1 << 32]; // SOL_SOCKET, SCM_RIGHTS
        for pair in self.fds.chunks(2) {
            let word = |at: usize| pair.get(at).map_or(0, |file| file.as_raw_fd() as u64);
            control.push(word(0) | word(1) << 32);
        }
        let piece = Piece(packet.as_ptr().cast(), packet.len());
        let has_fds = !self.fds.is_empty();
        let (control, control_length) = (control.as_ptr().cast(), if has_fds { control.len() * 8 } else { 0 });
        let name = std::ptr::null_mut();
        let message = Message { name, name_length: 0, pieces: &piece, piece_count: 1, control, control_length, flags: 0 };
        thread::sleep(self.delay);
        unsafe { sendmsg(fd, &message, 0x4000) };
    }
}

/// A daemon that answers each packet of a connection with the next of `replies`, then with nothing, or by ending it.
struct Hostile {
    listener: Arc<File>,
    connections: Arc<AtomicU32>,
    packets: Arc<AtomicU32>,
    scratch: Scratch,
}

impl Hostile {
    fn new(replies: Vec<Reply>, ends: bool) -> Hostile {
        let (scratch, connections, packets) = (Scratch::new(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let path = scratch.0.join("socket");
        let mut address = [0; 110];
        address[..2].copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
        address[2..2 + path.as_os_str().len()].copy_from_slice(path.as_os_str().as_bytes());
        let listener = Arc::new(unsafe { File::from_raw_fd(socket(AF_UNIX, SOCK_SEQPACKET, 0)) });
        assert_eq!(unsafe { bind(listener.as_raw_fd(), address.as_ptr().cast(), 110) }, 0);
        assert_eq!(unsafe { listen(listener.as_raw_fd(), 100) }, 0);
        let (accepting, count, packet_count) = (listener.clone(), connections.clone(), packets.clone());
        thread::spawn(move || loop {
            let fd = unsafe { accept(accepting.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut()) };
            if fd < 0 {
                return;
            }
            count.fetch_add(1, Relaxed);
            let (connection, replies, packets) = (unsafe { File::from_raw_fd(fd) }, replies.clone(), packet_count.clone());
            thread::spawn(move || {
                let mut data = vec![0u8; 131072];
                let mut replies = replies.iter();
                while unsafe { recv(connection.as_raw_fd(), data.as_mut_ptr().cast(), data.len(), 0) } > 0 {
                    packets.fetch_add(1, Relaxed);
                    match replies.next() {
                        Some(reply) => reply.send(connection.as_raw_fd(), u32::from_le_bytes([data[8], data[9], data[10], data[11]])),
                        None if ends => return,
                        None => (),
                    }
                }
            });
        });
        Hostile { listener, connections, packets, scratch }
    }

    fn path(&self) -> std::path::PathBuf {
        self.scratch.0.join("socket")
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        unsafe { shutdown(self.listener.as_raw_fd(), 2) };
    }
}

/// A page whose bits are all set but the first, so that a wrong one is noticed.
fn page(folder: &str, size: u64) -> Arc<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = format!("{folder}/userev-rust-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    file.write_all(&[0xfe]).unwrap();
    file.write_all(&[0xff; 4095]).unwrap();
    file.set_len(size).unwrap();
    Arc::new(file)
}

fn pair(kind: c_int) -> (Arc<File>, Arc<File>) {
    let mut fds = [0; 2];
    assert_eq!(unsafe { socketpair(AF_UNIX, kind, 0, &mut fds) }, 0);
    let [a, b] = fds.map(|fd| Arc::new(unsafe { File::from_raw_fd(fd) }));
    (a, b)
}

fn welcome(page: &Arc<File>) -> Reply {
    let mut body = vec![0; 40];
    body[8..12].copy_from_slice(&4096u32.to_le_bytes());
    Reply { kind: WELCOME, body, fds: vec![page.clone()], ..Reply::default() }
}

fn registered(bit: u32, number: u32, streams: &[(u32, &Arc<File>)]) -> Reply {
    let body = [&[1, 0, 0, 0, 0, 0, 0, 0], &bit.to_le_bytes()[..], &number.to_le_bytes(), &[7, 0, 0, 0]].concat();
    let fds = streams.iter().map(|(_, file)| Arc::clone(file)).collect();
    Reply { kind: REGISTERED, streams: streams.iter().map(|(number, _)| *number).collect(), body, fds, ..Reply::default() }
}

#[test]
fn answers_are_checked_before_they_are_used() {
    let (good, (stream, reader)) = (page("/dev/shm", 4096), pair(SOCK_SEQPACKET));
    let on_disk = page(env!("CARGO_TARGET_TMPDIR"), 4096);
    let (short, (other, _other_reader)) = (page("/dev/shm", 4095), pair(SOCK_STREAM));
    let nonsense = |raw: &[u8]| Reply { raw: Some(raw.to_vec()), ..Reply::default() };
    let granted = || registered(5, 1, &[(1, &stream)]);
    let cases = vec![
        ("all is right", true, vec![welcome(&good), granted()]),
        ("nonsense", false, vec![nonsense(b"nonsense")]),
        ("too large a packet", false, vec![nonsense(&[0; 131073])]),
        ("no page", false, vec![Reply { fds: Vec::new(), ..welcome(&good) }]),
        ("a page of a wrong size", false, vec![Reply { body: vec![0; 40], ..welcome(&good) }, granted()]),
        ("a WELCOME that ends early", false, vec![Reply { body: vec![0; 9], ..welcome(&good) }, granted()]),
        ("a page that is a socket", false, vec![welcome(&stream), granted()]),
        ("a page that is too short", false, vec![welcome(&short), granted()]),
        ("a page on a disk", on_disk_is_tmpfs(&on_disk), vec![welcome(&on_disk), granted()]),
        ("a stream of another type", false, vec![welcome(&good), registered(5, 1, &[(1, &other)])]),
        ("a stream that is a file", false, vec![welcome(&good), registered(5, 1, &[(1, &good)])]),
        ("a stream without its file", false, vec![welcome(&good), Reply { fds: Vec::new(), ..granted() }]),
        ("more files than wanted", true, vec![welcome(&good), registered(5, 1, &[(1, &stream), (2, &stream), (3, &stream)])]),
        ("a bit beyond the page", false, vec![welcome(&good), registered(1 << 15, 1, &[(1, &stream)])]),
        ("a bit far beyond the page", false, vec![welcome(&good), registered(u32::MAX, 1, &[(1, &stream)])]),
        ("bit 0", false, vec![welcome(&good), registered(0, 1, &[(1, &stream)])]),
        ("a stream that never came", false, vec![welcome(&good), registered(5, 1, &[])]),
        ("too few answers", false, vec![welcome(&good), Reply { body: vec![0; 4], ..granted() }]),
        ("too many answers", false, vec![welcome(&good), Reply { body: [&[2, 0, 0, 0], &[0; 32][..]].concat(), ..granted() }]),
        ("a later serial", false, vec![Reply { serial_add: 1, ..welcome(&good) }]),
        ("an earlier serial", false, vec![Reply { serial_add: u32::MAX, ..welcome(&good) }]),
        ("the wrong answer", false, vec![Reply { kind: REGISTERED, ..welcome(&good) }]),
        ("a trace beyond the last", false, vec![Reply { kind: TRACED, body: vec![4, 0, 0, 0], ..welcome(&good) }]),
        ("no answer to HELLO", false, vec![]),
        ("no answer to REGISTER", false, vec![welcome(&good)]),
    ];
    let run = |(name, is_on, replies): (&'static str, bool, Vec<Reply>)| {
        let daemon = Hostile::new(replies, false);
        let began = Instant::now();
        let connection = open(&daemon.path());
        let event = connection.register("e u32 x").unwrap();
        let _ = connection.register("f u32 x"); // does not wait again
        assert!(!is_on || connection.error().is_none(), "{name}");
        assert!(!name.contains("HELLO") || matches!(connection.error(), Some(userev::Error::NotConnected)), "{name}");
        assert_eq!((event.is_on(), event.write(&[1, 2, 3, 4]).unwrap()), (is_on, is_on), "{name}");
        drop(event);
        drop(connection);
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
    };
    cases.into_iter().for_each(run);
    let mut record = [0u8; 16];
    assert_eq!(unsafe { recv(reader.as_raw_fd(), record.as_mut_ptr().cast(), record.len(), 0) }, 8);
    assert_eq!(record[4..8], [1, 2, 3, 4]);
}

fn on_disk_is_tmpfs(file: &File) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let device = std::os::unix::fs::MetadataExt::dev(&file.metadata().unwrap());
    let device = format!(" {}:{} ", device >> 8 & 0xfff, device & 0xff);
    mounts.lines().any(|line| line.contains(&device) && line.contains(" - tmpfs "))
}

// The stream is blocking, and full: the record is lost. When its reader has gone, there is an error, and no SIGPIPE.
#[test]
fn stream_makes_no_writer_wait_and_raises_no_signal() {
    extern "C" {
        fn signal(number: c_int, handler: usize) -> usize;
    }
    unsafe { signal(13, 0) }; // Rust's programs ignore SIGPIPE; others need not
    let (stream, reader) = pair(SOCK_SEQPACKET);
    let daemon = Hostile::new(vec![welcome(&page("/dev/shm", 4096)), registered(5, 1, &[(1, &stream)])], false);
    let connection = open(&daemon.path());
    let event = connection.register("e u32 x").unwrap();
    while event.write(&[0; 4]).is_ok() {}
    assert!(matches!(event.write(&[0; 4]), Err(userev::WriteError::QueueFull)));
    assert!(matches!(event.write(&[0; 4065]), Err(userev::WriteError::TooBig)));
    assert_eq!(connection.lost(), [2, 1]);
    unsafe { shutdown(reader.as_raw_fd(), 2) };
    assert!(matches!(event.write(&[0; 4]), Err(userev::WriteError::Failed(_))));
}

// The page says that a trace has the event, and its socket never comes.
#[test]
fn trace_that_never_comes_slows_nothing_down() {
    let (stream, _reader) = pair(SOCK_SEQPACKET);
    let traced = page("/dev/shm", 40960);
    std::os::unix::fs::FileExt::write_all_at(&*traced, &[0xff; 8192], 4096).unwrap();
    let daemon = Hostile::new(vec![welcome(&traced), registered(5, 1, &[(1, &stream)])], false);
    let connection = open(&daemon.path());
    let event = connection.register("e u32 x").unwrap();
    let began = Instant::now();
    for _ in 0..1000 {
        assert!(!event.write(&[0; 4]).unwrap()); // no other tracer wants it
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn daemon_that_ends_each_connection_is_tried_less_and_less() {
    let daemon = Hostile::new(vec![welcome(&page("/dev/shm", 4096))], true);
    let connection = open(&daemon.path());
    let event = connection.register("e u32 x").unwrap();
    thread::sleep(Duration::from_secs(1));
    let count = daemon.connections.load(Relaxed);
    assert!((2..=10).contains(&count), "{count} connections");
    drop(event);
}

/// How many of this process's file descriptors are this file.
fn uses(file: &File) -> usize {
    let link = |fd: &dyn AsRef<Path>| fs::read_link(fd).ok();
    let wanted = link(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    fs::read_dir("/proc/self/fd").unwrap().flatten().filter(|entry| link(&entry.path()) == wanted).count()
}

// A packet with more files than room is cut, and the connection made again.
#[test]
fn files_of_hostile_daemons_are_closed() {
    let (good, (stream, _reader)) = (page("/dev/shm", 4096), pair(SOCK_SEQPACKET));
    let many: Vec<_> = (1..20).map(|number| (number, &stream)).collect();
    let daemon = Hostile::new(vec![welcome(&good), registered(5, 1, &many)], true);
    let connection = open(&daemon.path());
    let event = connection.register("e u32 x");
    eventually("it connects again", || daemon.connections.load(Relaxed) > 2);
    drop((event, connection));
    eventually("nothing is left open", || uses(&stream) == 1);
}

#[test]
fn streams_without_events_do_not_add_up() {
    let (good, (stream, _reader)) = (page("/dev/shm", 4096), pair(SOCK_SEQPACKET));
    let fds = [&good, &stream, &stream, &stream].map(Arc::clone).to_vec();
    let daemon = Hostile::new(vec![Reply { streams: vec![1, 2, 3], fds, ..welcome(&good) }], true);
    let connection = open(&daemon.path());
    let event = connection.register("e u32 x");
    eventually("it connects again", || daemon.connections.load(Relaxed) > 4);
    assert!(uses(&stream) <= 1 + 2 * 3, "{}", uses(&stream));
    drop(event);
}

// Another event with the same bit is released while this one is being registered: the daemon has not seen that release.
#[test]
fn granted_bit_is_not_released() {
    let (good, (stream, _reader)) = (page("/dev/shm", 4096), pair(SOCK_SEQPACKET));
    let again = Reply { delay: Duration::from_millis(300), ..registered(5, 1, &[]) };
    let daemon = Hostile::new(vec![welcome(&good), registered(5, 1, &[(1, &stream)]), again], false);
    let connection = Arc::new(open(&daemon.path()));
    let (first, other) = (connection.register("e u32 x").unwrap(), connection.clone());
    let second = thread::spawn(move || other.register("e u32 x").unwrap());
    eventually("the second is asked for", || daemon.packets.load(Relaxed) == 3);
    drop(first);
    let second = second.join().unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(daemon.packets.load(Relaxed), 3);
    assert!(second.write(&[0; 4]).unwrap());
}
