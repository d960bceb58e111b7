// SPDX-License-Identifier: LGPL-2.1-or-later

//! The status page in memory, and where an event's bit is in it. One of the two modules with unsafe code.

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_void};
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicU8, Ordering::Relaxed};
use std::{io, ptr::null_mut};

use crate::packets::{numbers, PAGE_BYTES, PAGE_FILE_BYTES, TRACED_AT, TRACES_AT};

numbers! { c_int { PROT_READ = 1, MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20, MREMAP_MAYMOVE = 1, MREMAP_FIXED = 2 } }

extern "C" {
    fn mmap(address: *mut c_void, size: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn mremap(from: *mut c_void, from_size: usize, size: usize, flags: c_int, ...) -> *mut c_void;
    fn munmap(address: *mut c_void, size: usize) -> c_int;
}

/// Memory for a connection's page, reserved once: each daemon's page is mapped there, since threads may be testing bits.
#[derive(Default)]
pub struct Page(usize);

fn checked(address: *mut c_void) -> io::Result<*mut c_void> {
    (address as isize != -1).then(|| address).ok_or_else(io::Error::last_os_error)
}

fn load(address: usize) -> u8 {
    // SAFETY: all addresses here are of a page that is readable as long as its events live.
    unsafe { &*(address as *const AtomicU8) }.load(Relaxed)
}

impl Page {
    pub fn reserve() -> io::Result<Page> {
        // SAFETY: new memory at an address that the kernel chooses.
        let address = unsafe { mmap(null_mut(), PAGE_FILE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
        Ok(Page(checked(address)? as usize))
    }

    /// Maps `size` bytes of the file, which has been checked. Moved there when it is mapped: a mapping that failed would leave a hole.
    pub fn map(&mut self, fd: BorrowedFd, size: usize) -> io::Result<()> {
        // SAFETY: new memory at an address that the kernel chooses.
        let fresh = checked(unsafe { mmap(null_mut(), size, PROT_READ, MAP_SHARED, fd.as_raw_fd(), 0) })?;
        // SAFETY: replaces a part of this reservation, which is only ever read by atomic loads.
        let moved = unsafe { mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, self.0 as *mut c_void) };
        checked(moved).map(|_| ())
    }

    /// The traces of the tenant's own that have the event, and TRACED_ONLY. Only if the file has these bytes.
    pub fn traces(&self, bit: u32) -> u8 {
        let bit = bit as usize % (8 * PAGE_BYTES);
        if load(self.0 + TRACED_AT + bit / 8) >> (bit % 8) & 1 == 0 {
            return 0;
        }
        load(self.0 + TRACES_AT + bit)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if self.0 != 0 {
            // SAFETY: the page lives as long as its connection's state, and that as long as an event whose status could point here.
            unsafe { munmap(self.0 as *mut c_void, PAGE_FILE_BYTES) };
        }
    }
}

/// The word of events that are not registered, so that the first test registers them, and the word of events that are off.
static HOME: [AtomicU32; 2] = [AtomicU32::new(u32::MAX), AtomicU32::new(0)];
const UNREGISTERED: isize = 0;
const OFF: isize = 32;

/// Where an event's bit is: its distance from HOME, in bits. So a test is a load of that, a load of the word with the bit, and a branch.
#[derive(Debug)]
pub struct Status(AtomicIsize);

impl Status {
    pub const fn unregistered() -> Status {
        Status(AtomicIsize::new(UNREGISTERED))
    }

    pub fn set_off(&self) {
        self.0.store(OFF, Relaxed);
    }

    pub fn set(&self, page: &Page, bit: u32) {
        let bit = bit as usize % (8 * PAGE_BYTES);
        // The page is counted byte by byte, so that the bits of a word are turned on a big-endian machine.
        let in_word = if cfg!(target_endian = "big") { (bit % 32) ^ 24 } else { bit % 32 };
        let words = (page.0 + bit / 32 * 4).wrapping_sub(HOME.as_ptr() as usize) / 4;
        self.0.store((words << 5 | in_word) as isize, Relaxed);
    }

    #[inline(always)]
    fn address(at: isize) -> usize {
        (HOME.as_ptr() as usize).wrapping_add(((at >> 5) as usize).wrapping_mul(4))
    }

    /// True while an event is on, unregistered, or on an abandoned page.
    #[inline(always)]
    pub fn test(&self) -> bool {
        let at = self.0.load(Relaxed);
        // SAFETY: `at` leads to HOME, or to a page that is readable as long as its events live.
        let word = unsafe { &*(Self::address(at) as *const AtomicU32) }.load(Relaxed);
        word >> (at & 31) & 1 != 0
    }

    /// Whether no daemon updates the event's page any more, whose bits are all set then, bit 0 as well. For events that passed the test.
    pub fn is_abandoned(&self) -> bool {
        let at = self.0.load(Relaxed);
        at != OFF && at != UNREGISTERED && load(Self::address(at) & !(PAGE_BYTES - 1)) & 1 != 0
    }
}
