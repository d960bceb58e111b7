/tmp/me/w/t/client/rust/target/debug/deps/client-97a375f6ed089232.d: tests/client/main.rs tests/client/alone.rs tests/client/daemon.rs tests/client/hostile.rs

/tmp/me/w/t/client/rust/target/debug/deps/client-97a375f6ed089232: tests/client/main.rs tests/client/alone.rs tests/client/daemon.rs tests/client/hostile.rs

tests/client/main.rs:
tests/client/alone.rs:
tests/client/daemon.rs:
tests/client/hostile.rs:

# env-dep:CARGO_TARGET_TMPDIR=/tmp/me/w/t/client/rust/target/tmp
