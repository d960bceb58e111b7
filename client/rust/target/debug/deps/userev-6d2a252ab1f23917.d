/tmp/me/w/t/client/rust/target/debug/deps/userev-6d2a252ab1f23917.d: src/lib.rs src/connection.rs src/declared.rs src/event.rs src/packets.rs src/record.rs src/status.rs src/sys.rs src/../README.md

/tmp/me/w/t/client/rust/target/debug/deps/libuserev-6d2a252ab1f23917.rlib: src/lib.rs src/connection.rs src/declared.rs src/event.rs src/packets.rs src/record.rs src/status.rs src/sys.rs src/../README.md

/tmp/me/w/t/client/rust/target/debug/deps/libuserev-6d2a252ab1f23917.rmeta: src/lib.rs src/connection.rs src/declared.rs src/event.rs src/packets.rs src/record.rs src/status.rs src/sys.rs src/../README.md

src/lib.rs:
src/connection.rs:
src/declared.rs:
src/event.rs:
src/packets.rs:
src/record.rs:
src/status.rs:
src/sys.rs:
src/../README.md:
