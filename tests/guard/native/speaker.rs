// SPDX-License-Identifier: GPL-2.0-or-later

//! As speaker.c.

use std::fs::{File, OpenOptions};
use std::io::{Error, Write};
use std::os::unix::io::AsRawFd;
use std::time::Duration;

#[repr(C, packed)]
struct UserReg {
    size: u32,
    enable_bit: u8,
    enable_size: u8,
    flags: u16,
    enable_addr: u64,
    name_args: u64,
    write_index: u32,
}

extern "C" {
    fn ioctl(fd: i32, request: u64, argument: *mut UserReg) -> i32;
}

struct Event {
    enabled: Box<u32>, // the kernel writes to it, so it must not move
    reg: UserReg,
}

fn register(file: &File, name: &str) -> Event {
    let description = format!("{} u32 number\0", name);
    let enabled = Box::new(0u32);
    let mut reg = UserReg {
        size: std::mem::size_of::<UserReg>() as u32,
        enable_bit: 0,
        enable_size: 4,
        flags: 0,
        enable_addr: &*enabled as *const u32 as u64,
        name_args: description.as_ptr() as u64,
        write_index: 0,
    };

    if unsafe { ioctl(file.as_raw_fd(), 0xC0082A00, &mut reg) } < 0 {
        println!("{}: error {}", name, Error::last_os_error().raw_os_error().unwrap());
    } else {
        println!("{}: registered", name);
    }
    Event { enabled, reg }
}

fn main() {
    let mut file = match OpenOptions::new().write(true).open("/sys/kernel/tracing/user_events_data") {
        Ok(file) => file,
        Err(error) => {
            println!("open: error {}", error.raw_os_error().unwrap());
            std::process::exit(1);
        }
    };
    let events: Vec<Event> = std::env::args().skip(1).map(|name| register(&file, &name)).collect();

    for number in 0u32.. {
        for event in &events {
            if unsafe { std::ptr::read_volatile(&*event.enabled) } & 1 == 0 {
                continue;
            }
            let mut record = Vec::from({ event.reg.write_index }.to_ne_bytes());
            record.extend_from_slice(&number.to_ne_bytes());
            if let Err(error) = file.write(&record) {
                println!("write: error {}", error.raw_os_error().unwrap());
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
