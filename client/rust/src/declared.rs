// SPDX-License-Identifier: LGPL-2.1-or-later

//! Events that are declared as an item, with a type for each field.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::{connection::common, event::Target, status::Status, Record, Refusal};

/// A type of fields. It is implemented for what has the same size on every machine: u8 to u64, i8 to i64, f32, f64, bool, `&str`, `&[u8]`
/// and `[u8; N]`. So `usize` is none: convert it to u64.
pub trait Field {
    /// The field in the event's description. Of the names of floats, readers know the suffixes `_f32` and `_f64`, which are added.
    fn describe(name: &str) -> String;

    /// Adds a value.
    fn add(self, record: Record<'_>) -> Record<'_>;
}

macro_rules! fields {
    ($($type:ty, $kind:literal, $suffix:literal, $add:ident;)*) => {$(
        impl Field for $type {
            fn describe(name: &str) -> String {
                format!(concat!($kind, " {}", $suffix), name.strip_suffix($suffix).unwrap_or(name))
            }

            fn add(self, record: Record<'_>) -> Record<'_> {
                record.$add(self)
            }
        }
    )*};
}

fields! {
    u8, "u8", "", u8; u16, "u16", "", u16; u32, "u32", "", u32; u64, "u64", "", u64;
    i8, "s8", "", i8; i16, "s16", "", i16; i32, "s32", "", i32; i64, "s64", "", i64;
    f32, "u32", "_f32", f32; f64, "u64", "_f64", f64; bool, "u8", "", bool;
    &str, "__rel_loc char[]", "", str; &[u8], "__rel_loc u8[]", "", bytes;
}

impl<const N: usize> Field for [u8; N] {
    fn describe(name: &str) -> String {
        format!("char[{N}] {name}")
    }

    fn add(self, record: Record<'_>) -> Record<'_> {
        record.fixed(&self, N)
    }
}

/// What [`event!`](macro@crate::event) makes an item of. It is registered when it is first tested.
#[doc(hidden)]
pub struct Declared {
    status: Status,
    describe: fn() -> String,
    event: AtomicUsize, // 0: it is not registered
}

impl Declared {
    pub const fn new(describe: fn() -> String) -> Declared {
        Declared { status: Status::unregistered(), describe, event: AtomicUsize::new(0) }
    }

    #[inline(always)]
    pub fn is_on(&'static self) -> bool {
        self.status.test() && self.is_really_on()
    }

    #[cold]
    fn is_really_on(&'static self) -> bool {
        self.target().map_or(false, |target| self.status.test() && target.is_current(&self.status))
    }

    /// Registers the event if that has not been done. None: there is no memory for a connection.
    fn target(&'static self) -> Option<Target> {
        let handle = common().ok()?;
        let is_new = self.event.load(Relaxed) == 0;
        if is_new {
            let description = (self.describe)();
            handle.change_connected(|state| {
                if self.event.load(Relaxed) == 0 {
                    self.event.store(state.add(Box::new(&self.status), description, 0), Relaxed);
                }
            });
        }
        let target = Target { handle, event: self.event.load(Relaxed) };
        if is_new {
            target.wait();
        }
        Some(target)
    }

    pub fn register(&'static self) -> Result<(), Refusal> {
        self.target().and_then(|target| target.refusal()).map_or(Ok(()), Err)
    }

    pub fn begin(&'static self) -> Option<Record<'static>> {
        self.target().map(Record::new)
    }
}

/// Declares an event of the process, with a name and typed fields.
///
/// ```
/// userev::event! {
///     /// A request was answered.
///     pub shop_request(status: u32, ns: u64, path: &str)
/// }
///
/// userev::emit!(shop_request, 404, 4000, "/favicon.ico");
/// ```
///
/// The item is a static with these functions: `is_on()`; `emit(…)`, which writes a record; `register()`, which does at once what the first
/// test would do, and returns the daemon's refusal; and `description()`.
///
/// Types and number of the fields are checked when the program is compiled:
///
/// ```compile_fail
/// userev::event! { shop_request(status: u32) }
/// userev::emit!(shop_request, "404");
/// ```
/// ```compile_fail
/// userev::event! { shop_request(status: u32) }
/// userev::emit!(shop_request, 404, 4000);
/// ```
/// ```compile_fail
/// userev::event! { shop_request(status: usize) } // has not the same size everywhere
/// ```
#[macro_export]
macro_rules! event {
    ($(#[$meta:meta])* $visible:vis $name:ident($($field:ident: $type:ty),* $(,)?)) => {
        $(#[$meta])*
        #[allow(non_camel_case_types)]
        $visible struct $name {
            event: $crate::Declared,
        }

        $(#[$meta])*
        #[allow(non_upper_case_globals)]
        $visible static $name: $name = $name { event: $crate::Declared::new($name::description) };

        $(#[$meta])*
        #[allow(dead_code)]
        impl $name {
            /// The event as userevd-protocol(7) describes it.
            pub fn description() -> ::std::string::String {
                $crate::describe(stringify!($name), &[$(<$type as $crate::Field>::describe(stringify!($field))),*])
            }

            /// Whether the event is traced.
            #[inline(always)]
            pub fn is_on(&'static self) -> bool {
                self.event.is_on()
            }

            /// Registers the event, which the first test does otherwise. Fails if the daemon refuses it.
            pub fn register(&'static self) -> ::std::result::Result<(), $crate::Refusal> {
                self.event.register()
            }

            /// Writes a record. Errors are counted as losses.
            #[inline(never)]
            #[allow(clippy::too_many_arguments)]
            pub fn emit(&'static self $(, $field: $type)*) {
                if let ::std::option::Option::Some(record) = self.event.begin() {
                    $(let record = $crate::Field::add($field, record);)*
                    let _ = record.end();
                }
            }
        }
    };
}

/// Writes a record of an event that [`event!`](macro@crate::event) declares, if it is on. Otherwise the values are not evaluated.
#[macro_export]
macro_rules! emit {
    ($event:path $(, $value:expr)* $(,)?) => {
        if $event.is_on() {
            $event.emit($($value),*);
        }
    };
}

#[doc(hidden)]
pub fn describe(name: &str, fields: &[String]) -> String {
    format!("{name} {}", fields.join("; ")).replace("r#", "").trim_end().into() // raw identifiers
}

#[cfg(test)]
#[allow(dead_code)]
mod tests {
    crate::event! { visit(status: u32, size: i64, load: f64, half_f32: f32, hit: bool, r#type: [u8; 4], path: &str, body: &[u8]) }
    crate::event! { bare() }
    crate::event! { #[cfg(any())] left_out(missing: NoSuchType) }

    #[test]
    fn description_has_the_fields_of_the_declaration() {
        let fields = "u32 status; s64 size; u64 load_f64; u32 half_f32; u8 hit; char[4] type; __rel_loc char[] path; __rel_loc u8[] body";
        assert_eq!(visit::description(), format!("visit {fields}"));
        assert_eq!(bare::description(), "bare");
    }
}
