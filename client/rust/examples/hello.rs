// SPDX-License-Identifier: CC0-1.0

//! `cargo run --example hello`: one record a second; `userevctl tail hello_said` prints them.

use std::{env, thread, time::Duration};

userev::event! { hello_said(count: u32, whom: &str) }

fn main() {
    let last = env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(60);
    for count in 1..=last {
        userev::emit!(hello_said, count, "world");
        thread::sleep(Duration::from_secs(1));
    }
}
