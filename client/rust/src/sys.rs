// SPDX-License-Identifier: LGPL-2.1-or-later

//! Calls of the C library that std does not have. One of the two modules with unsafe code.

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_ulong, c_void};
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::{ffi::OsStrExt, fs::MetadataExt, net::UnixStream};
use std::{fs::File, io, io::Write, mem::size_of, mem::zeroed, path::Path, time::Duration};

use crate::connection::Error;
use crate::packets::{numbers, FDS_MAX, PACKET_MAX, PAGE_BYTES, PAGE_FILE_BYTES};

#[cfg(any(not(target_os = "linux"), not(target_pointer_width = "64"), target_arch = "mips64", target_arch = "sparc64"))]
compile_error!("userev has the numbers of Linux on machines of 64 bits, other than mips64 and sparc64");

numbers! {
    c_int {
        AF_UNIX = 1, SOCK_SEQPACKET = 5, SOCK_CLOEXEC = 0o2000000, SOL_SOCKET = 1, SO_TYPE = 3, SO_SNDBUF = 7, SO_DOMAIN = 39, SCM_RIGHTS = 1,
        MSG_CTRUNC = 0x8, MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000, MSG_CMSG_CLOEXEC = 0x4000_0000,
        F_GET_SEALS = 1034, F_SEAL_SHRINK = 2, SIG_SETMASK = 2,
        EBADF = 9, EAGAIN = 11, ENOMEM = 12, ENAMETOOLONG = 36, EMSGSIZE = 90, ENOBUFS = 105
    }
    c_ulong { AT_SECURE = 23 }
    u64 { TMPFS_MAGIC = 0x0102_1994, TRACEFS_MAGIC = 0x7472_6163, ST_RDONLY = 1 }
}
const SO_PEERCRED: c_int = if cfg!(target_arch = "powerpc64") { 21 } else { 17 };

#[repr(C)]
struct Msghdr {
    name: *mut c_void,
    name_length: u32,
    pieces: *const Piece,
    piece_count: usize,
    control: *mut Control,
    control_length: usize,
    flags: c_int,
}

#[repr(C)]
struct Piece(*mut u8, usize);

/// A control message with file descriptors, at most FDS_MAX: there is no other kind here.
#[repr(C)]
struct Control {
    length: usize,
    level: c_int,
    kind: c_int,
    fds: [RawFd; FDS_MAX],
}

extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(fd: c_int, address: *const [u8; 110], length: u32) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_int, length: u32) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut u32) -> c_int;
    fn send(fd: c_int, data: *const c_void, length: usize, flags: c_int) -> isize;
    fn recvmsg(fd: c_int, message: *mut Msghdr, flags: c_int) -> isize;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn fstatfs(fd: c_int, to: *mut [u64; 32]) -> c_int;
    fn getauxval(kind: c_ulong) -> c_ulong;
    fn sigfillset(set: *mut [u64; 16]) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const [u64; 16], former: *mut [u64; 16]) -> c_int;
    fn pthread_atfork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> c_int;
}

fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Whether the environment is to be ignored: a set-user-ID program, or one with other privileges of its own.
pub fn is_privileged() -> bool {
    // SAFETY: has no preconditions.
    unsafe { getauxval(AT_SECURE) != 0 }
}

/// Calls a function that starts a thread. Signals are for the program's own threads.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let (mut all, mut former) = ([0; 16], [0; 16]);
    // SAFETY: a sigset_t has that size.
    unsafe {
        sigfillset(&mut all);
        pthread_sigmask(SIG_SETMASK, &all, &mut former);
    }
    let started = start();
    // SAFETY: as before.
    unsafe { pthread_sigmask(SIG_SETMASK, &former, std::ptr::null_mut()) };
    started
}

pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: the functions live as long as the program, or the library, whose end the C library notices.
    unsafe { pthread_atfork(prepare, parent, child) };
}

fn option<T: Default>(fd: BorrowedFd, name: c_int) -> io::Result<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as u32);
    // SAFETY: the value has the size that is given, and T is a number or a struct of numbers.
    checked(unsafe { getsockopt(fd.as_raw_fd(), SOL_SOCKET, name, (&mut value as *mut T).cast(), &mut length) } as isize)?;
    Ok(value)
}

/// A connection with the socket at `path`. If very many programs are connecting, it waits until `limit`.
pub fn connect_to(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let mut address = [0; 110]; // the family, and a path with a NUL
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > address.len() - 3 {
        return Err(io::Error::from_raw_os_error(ENAMETOOLONG));
    }
    address[..2].copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
    address[2..2 + bytes.len()].copy_from_slice(bytes);
    // SAFETY: the descriptor is new, and has no other owner.
    let fd = unsafe { UnixStream::from_raw_fd(checked(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) as isize)? as RawFd) };
    fd.set_write_timeout(Some(limit))?;
    // SAFETY: option and address have the sizes that are given.
    checked(unsafe {
        setsockopt(fd.as_raw_fd(), SOL_SOCKET, SO_SNDBUF, &(2 * PACKET_MAX as c_int), 4);
        connect(fd.as_raw_fd(), &address, address.len() as u32) as isize
    })?;
    Ok(fd)
}

/// Sends a packet. It does not wait, and raises no signal.
pub fn send_packet(fd: BorrowedFd, data: &[u8]) -> io::Result<()> {
    // SAFETY: the data have the size that is given.
    checked(unsafe { send(fd.as_raw_fd(), data.as_ptr().cast(), data.len(), MSG_DONTWAIT | MSG_NOSIGNAL) }).map(|_| ())
}

/// Waits for a packet: its size, and its file descriptors. The caller alone closes `fd`.
pub fn receive(fd: RawFd, data: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Error> {
    // SAFETY: zeros are valid structs; on musl there is padding in them.
    let (mut message, mut control): (Msghdr, Control) = unsafe { zeroed() };
    let piece = Piece(data.as_mut_ptr(), data.len());
    (message.pieces, message.piece_count) = (&piece, 1);
    (message.control, message.control_length) = (&mut control, size_of::<Control>());
    // SAFETY: the message's piece and control are as large as it says.
    let size = match checked(unsafe { recvmsg(fd, &mut message, MSG_CMSG_CLOEXEC) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return receive(fd, data),
        size => size?,
    };
    let is_rights = message.control_length >= 16 && (control.level, control.kind) == (SOL_SOCKET, SCM_RIGHTS);
    let count = if is_rights { (control.length - 16) / 4 } else { 0 };
    // SAFETY: the kernel has just given these descriptors to the caller.
    let fds = control.fds.into_iter().take(count).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
    match message.flags & (MSG_TRUNC | MSG_CTRUNC) {
        0 if size == 0 => Err(Error::NotConnected),
        0 => Ok((size, fds)),
        _ => Err(Error::BadPacket),
    }
}

/// A file system's magic number and flags.
fn file_system(fd: BorrowedFd) -> io::Result<(u64, u64)> {
    let mut status = [0; 32];
    // SAFETY: a struct statfs is smaller.
    checked(unsafe { fstatfs(fd.as_raw_fd(), &mut status) } as isize)?;
    let has_halves = cfg!(target_arch = "s390x"); // six of its words have 32 bits there
    Ok(if has_halves { (status[0] >> 32, status[8] >> 32) } else { (status[0], status[10]) })
}

/// How much of the page's file may be mapped: with the bytes for traces, or without; None: another process could shorten it, which would
/// end this program by SIGBUS.
pub fn page_size(page: &File, connection: BorrowedFd) -> Option<usize> {
    let (kind, flags) = file_system(page.as_fd()).ok()?;
    if kind == TRACEFS_MAGIC {
        return Some(PAGE_BYTES);
    }
    let (status, peer) = (page.metadata().ok()?, option::<[u32; 3]>(connection, SO_PEERCRED).ok()?[1]); // pid, uid, gid
    let is_private = status.mode() & 0o022 == 0 && (status.uid() == 0 || status.uid() == peer);
    // SAFETY: has no preconditions.
    let seals = unsafe { fcntl(page.as_raw_fd(), F_GET_SEALS) };
    let is_sealed = seals != -1 && seals & F_SEAL_SHRINK != 0;
    if kind != TMPFS_MAGIC || !status.is_file() || !(is_private || is_sealed || flags & ST_RDONLY != 0 || peer == 0) {
        return None;
    }
    [PAGE_FILE_BYTES, PAGE_BYTES].into_iter().find(|size| status.len() >= *size as u64)
}

/// A file for records. Writing one neither waits nor raises a signal: sockets are not trusted to be non-blocking.
pub struct Stream {
    file: File,
    is_socket: bool,
}

impl Stream {
    /// None: a file of another kind, where a writer could wait.
    pub fn new(fd: OwnedFd) -> Option<Stream> {
        let is_socket = [SO_DOMAIN, SO_TYPE].map(|name| option(fd.as_fd(), name).ok()) == [Some(AF_UNIX), Some(SOCK_SEQPACKET)];
        let is_known = is_socket || file_system(fd.as_fd()).map_or(false, |(kind, _)| kind == TRACEFS_MAGIC);
        is_known.then(|| Stream { file: fd.into(), is_socket })
    }

    pub fn write(&self, record: &[u8]) -> io::Result<()> {
        if self.is_socket {
            return send_packet(self.file.as_fd(), record);
        }
        (&self.file).write(record).map(|_| ())
    }
}
