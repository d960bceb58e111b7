// SPDX-License-Identifier: GPL-2.0-or-later

//! With a daemon, on its embedded backend.

use std::io::{BufRead, BufReader, Read};
use std::os::raw::c_int;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use std::{env, fs};

use userev::Event;

use crate::alone::allocations;
use crate::{at, eventually, open, Scratch};

extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

struct Daemon {
    process: Option<Child>,
    options: Vec<&'static str>,
    scratch: Scratch,
}

/// None, and the test passes, if B does not say where userevd is.
fn build() -> Option<PathBuf> {
    let build = env::var_os("B").map(PathBuf::from);
    if build.is_none() {
        eprintln!("skipped: B=FOLDER of userevd is not set");
    }
    build
}

impl Daemon {
    fn new(options: &[&'static str]) -> Option<Daemon> {
        let mut daemon = Daemon::later(options);
        daemon.start(&build()?);
        Some(daemon)
    }

    fn later(options: &[&'static str]) -> Daemon {
        Daemon { process: None, options: options.to_vec(), scratch: Scratch::new() }
    }

    fn start(&mut self, build: &Path) {
        let mut command = Command::new(build.join("userevd"));
        command.args(["--foreground", "--backend=embedded", "--exit-with-parent", "--ready-fd=1", "--log-level=err"]);
        command.arg(format!("--socket={}", self.socket().display())).arg(format!("--control-socket={}", self.control().display()));
        let mut process = command.args(&self.options).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0];
        process.stdout.take().unwrap().read_exact(&mut ready).unwrap();
        self.process = Some(process);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn socket(&self) -> PathBuf {
        self.scratch.0.join("socket")
    }

    fn control(&self) -> PathBuf {
        self.scratch.0.join("control")
    }

    fn tail(&self, pattern: &str) -> Tail {
        let mut command = Command::new(build().unwrap().join("userevctl"));
        command.arg(format!("--control-socket={}", self.control().display())).args(["tail", "--json", "--wait", pattern]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        Tail { lines: BufReader::new(process.stdout.take().unwrap()), process }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = Command::new("kill").arg(process.id().to_string()).status();
            let _ = process.wait();
        }
    }
}

/// A tracer, and the records that it prints.
struct Tail {
    lines: BufReader<ChildStdout>,
    process: Child,
}

impl Tail {
    fn next(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_on(event: &Event) {
    eventually("the event is on", || event.is_on());
}

userev::event! { declared_visit(status: u32, load: f64, verb: [u8; 4], hit: bool, path: &str, body: &[u8]) }
userev::event! { declared_bad(x: u32, common_pid: u32) }

// The process has one connection for all of its declared events: this is their only test with a daemon.
#[test]
fn declared_event_finds_its_daemon() {
    let mut daemon = Daemon::later(&[]);
    at(&daemon.socket(), || declared_visit.register()).unwrap();
    let before = allocations();
    for _ in 0..1000 {
        userev::emit!(declared_visit, 404, 0.5, *b"GET\0", true, &format!("{} is not evaluated", before), &[1, 2]);
    }
    assert_eq!(allocations(), before);

    match build() {
        Some(build) => daemon.start(&build),
        None => return,
    };
    let mut tail = daemon.tail("declared_*");
    eventually("the event is on", || declared_visit.is_on());
    let refusal = declared_bad.register().unwrap_err();
    assert_eq!(refusal.reason, "bad-description");
    assert!(refusal.sentence.contains("common_pid"), "{refusal}");
    userev::emit!(declared_bad, 1, 2);
    userev::emit!(declared_visit, 404, 0.5, *b"GET\0", true, "/favicon.ico", &[1, 2]);
    let line = tail.next();
    let wanted = r#""fields":{"status":404,"load_f64":0.5,"verb":"GET","hit":1,"path":"/favicon.ico","body":[1,2]}"#;
    assert!(line.replace(": ", ":").replace(", ", ",").contains(wanted), "{line}");
}

#[test]
fn refusal_has_the_daemons_sentence() {
    let daemon = match Daemon::new(&["--max-events=3"]) {
        Some(daemon) => daemon,
        None => return,
    };
    let connection = open(&daemon.socket());
    let refusal = connection.register("e long x").unwrap_err();
    assert_eq!(refusal.reason, "bad-description");
    assert!(refusal.to_string().contains("'long' has no fixed size"), "{refusal}");
    let events: Vec<_> = (0..3).map(|i| connection.register(&format!("e{i} u32 x")).unwrap()).collect();
    let refusal = connection.register("one_more u32 x").unwrap_err();
    assert_eq!(refusal.reason, "quota-exceeded");
    drop(events);
    connection.register("one_more u32 x").unwrap();
}

#[test]
fn thousands_of_events_survive_a_kill_of_the_daemon() {
    let mut daemon = match Daemon::new(&["--max-events=6000"]) {
        Some(daemon) => daemon,
        None => return,
    };
    let connection = open(&daemon.socket());
    let events: Vec<_> = (0..5000).map(|i| connection.register(&format!("many_{i} u32 x")).unwrap()).collect();
    assert!(events.iter().all(|event| event.refusal().is_none() && !event.is_on()));
    {
        let mut tail = daemon.tail("many_4999");
        wait_on(&events[4999]);
        assert!(!events[4998].is_on());
        assert!(events[4999].write(&4999u32.to_ne_bytes()).unwrap());
        assert!(tail.next().contains("4999"));
    }
    daemon.kill();
    daemon.start(&build().unwrap());
    let mut tail = daemon.tail("many_4*");
    eventually("all events are registered again", || events[4000..].iter().all(|event| event.is_on()));
    assert!(!events[3999].is_on());
    assert!(events[4000].begin().unwrap().u32(77).end().unwrap());
    assert!(tail.next().contains("77"));
    drop(events);
}

#[test]
fn threads_write_at_the_same_time() {
    let daemon = match Daemon::new(&[]) {
        Some(daemon) => daemon,
        None => return,
    };
    let connection = open(&daemon.socket());
    let event = connection.register("threaded u32 thread; u32 n").unwrap();
    let mut tail = daemon.tail("threaded");
    wait_on(&event);
    thread::scope(|scope| {
        for i in 0..8 {
            let event = &event;
            scope.spawn(move || {
                for n in 0..50 {
                    eventually("there is room", || matches!(event.begin().unwrap().u32(i).u32(n).end(), Ok(true)));
                }
            });
        }
        // Meanwhile other events come and go.
        (0..50).for_each(|_| drop(connection.register("threaded_too u32 x").unwrap()));
    });
    let mut counts = [0; 8];
    for _ in 0..8 * 50 {
        let line = tail.next();
        let (thread, n) = (0..8).find_map(|i| number_behind(&line, &format!("\"thread\":{i},\"n\":")).map(|n| (i, n))).expect(&line);
        assert_eq!(counts[thread], n, "{line}");
        counts[thread] += 1;
    }
}

fn number_behind(line: &str, prefix: &str) -> Option<u32> {
    let line = line.replace(' ', "");
    let (_, rest) = line.split_once(prefix)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

// While other threads write, so that the lock is taken when the process forks. The child has one thread, and no one else's.
#[test]
fn forked_child_connects_by_itself() {
    let daemon = match Daemon::new(&[]) {
        Some(daemon) => daemon,
        None => return,
    };
    let connection = open(&daemon.socket());
    let event = connection.register("parent u32 x").unwrap();
    let mut tail = daemon.tail("child");
    let _parent = daemon.tail("parent");
    wait_on(&event);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let _ = event.write(&[0; 4]);
                    drop(connection.register("busy u32 x"));
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        for _ in 0..10 {
            let child = unsafe { fork() };
            if child == 0 {
                // Only an event of a connection of its own can be registered.
                let own = connection.register("child u32 pid");
                let written = own.map_or(false, |own| {
                    wait_on(&own);
                    own.write(&std::process::id().to_ne_bytes()).unwrap_or(false)
                });
                unsafe { _exit(if written && event.is_on() { 0 } else { 1 }) };
            }
            let mut status = -1;
            eventually("the child ends", || unsafe { waitpid(child, &mut status, 1) } == child);
            assert_eq!(status, 0);
            let line = tail.next();
            assert_eq!(number_behind(&line, "\"fields\":{\"pid\":"), Some(child as u32), "{line}");
        }
        is_over.store(true, Relaxed);
    });
    assert!(connection.error().is_none());
}

// All of a connection's files are closed with it, and its thread ends.
#[test]
fn connection_leaves_nothing() {
    let daemon = match Daemon::new(&[]) {
        Some(daemon) => daemon,
        None => return,
    };
    let list = daemon.scratch.0.join("list");
    let status = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "daemon::a_hundred_connections", "--test-threads=1"])
        .env("USEREV_SOCKET", daemon.socket())
        .env("USEREV_LIST", &list)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(list).unwrap(), "ok");
}

// A process of its own: other tests have files and threads, too.
#[test]
#[ignore = "a part of connection_leaves_nothing"]
fn a_hundred_connections() {
    let socket = env::var_os("USEREV_SOCKET").unwrap();
    let count = |of: &str| fs::read_dir(format!("/proc/self/{of}")).unwrap().count();
    let maps = || fs::read_to_string("/proc/self/maps").unwrap().matches(" r--s ").count();
    let run = || {
        let connection = open(Path::new(&socket));
        let event = connection.register("e u32 x").unwrap();
        assert!(maps() > 0);
        drop(connection);
        assert!(!event.is_on());
    };
    let threads = count("task");
    run();
    eventually("the thread ends", || count("task") == threads);
    let (files, pages) = (count("fd"), maps());
    (0..100).for_each(|_| run());
    eventually("the threads end", || count("task") == threads);
    assert_eq!((count("fd"), maps()), (files, pages));
    fs::write(env::var_os("USEREV_LIST").unwrap(), "ok").unwrap();
}
