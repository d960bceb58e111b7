// SPDX-License-Identifier: GPL-2.0-or-later

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use userev::{Connection, Error, Event};

use crate::open;

/// Counts the allocations of each thread.
struct Counting;

pub fn allocations() -> usize {
    ALLOCATIONS.with(Cell::get)
}

thread_local! {
    static ALLOCATIONS: Cell<usize> = Cell::new(0);
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        System.dealloc(at, layout)
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn without_a_daemon_events_are_off() {
    let connection = open(Path::new("/nonexistent/socket"));
    let event = connection.register("e u32 x").unwrap();
    assert!(!event.is_on());
    assert!(!event.write(&[0; 4]).unwrap());
    assert!(event.begin().is_none());
    assert!(event.refusal().is_none());
    assert!(matches!(connection.error(), Some(Error::Failed(why)) if why.contains("/nonexistent/socket")));
}

#[test]
fn event_off_costs_no_allocation() {
    let connection = open(Path::new("/nonexistent/socket"));
    let event = connection.register("e u32 x").unwrap();
    let before = allocations();
    for _ in 0..1000 {
        assert!(event.begin().is_none() && !event.write(&[0; 4]).unwrap());
    }
    assert_eq!(allocations(), before);
}

#[test]
fn event_after_its_connection_is_off() {
    let connection = open(Path::new("/nonexistent/socket"));
    let event = connection.register("e u32 x").unwrap();
    drop(connection);
    assert!(!event.is_on() && !event.write(&[0; 4]).unwrap());
}

#[test]
fn too_long_description_is_refused() {
    let refusal = open(Path::new("/nonexistent/socket")).register(&"e".repeat(512)).unwrap_err();
    assert_eq!(refusal.reason, "bad-description");
    assert!(refusal.to_string().contains("511"), "{refusal}");
}

#[test]
fn too_long_path_is_an_error() {
    let connection = open(Path::new(&format!("/{}", "x".repeat(200))));
    assert!(matches!(connection.error(), Some(Error::Failed(why)) if why.contains("too long")));
}

#[test]
fn connections_and_events_are_for_all_threads() {
    fn is_for_all<T: Send + Sync>() {}
    is_for_all::<Connection>();
    is_for_all::<Event>();
}
