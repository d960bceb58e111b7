// SPDX-License-Identifier: LGPL-2.1-or-later

use std::marker::PhantomData;

use crate::event::{Target, WriteError};

/// A record under construction, field by field, in the order of the event's description.
///
/// ```no_run
/// # let connection = userev::Connection::open()?;
/// let event = connection.register("shop_request u32 status; __rel_loc char[] path")?;
/// if let Some(record) = event.begin() {
///     record.u32(404).str("/favicon.ico").end()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a record is written by end()"]
pub struct Record<'a> {
    target: Target,
    fixed: Vec<u8>,           // behind four bytes for the index
    data: Vec<u8>,            // of dynamic fields
    dynamic: Vec<[usize; 3]>, // where its location is, where its data begin, and their length
    event: PhantomData<&'a ()>,
}

macro_rules! numbers {
    ($($type:ident $kind:literal;)*) => {$(
        #[doc = concat!("Adds a ", $kind, ".")]
        pub fn $type(mut self, value: $type) -> Self {
            self.fixed.extend(value.to_ne_bytes());
            self
        }
    )*};
}

impl Record<'_> {
    pub(crate) fn new(target: Target) -> Self {
        let mut fixed = Vec::with_capacity(256);
        fixed.extend([0; 4]);
        Record { target, fixed, data: Vec::new(), dynamic: Vec::new(), event: PhantomData }
    }

    numbers! {
        u8 "u8, or a char"; u16 "u16"; u32 "u32"; u64 "u64"; i8 "s8"; i16 "s16"; i32 "s32"; i64 "s64";
        f32 "u32 whose name ends with `_f32`"; f64 "u64 whose name ends with `_f64`";
    }

    /// Adds a u8 that is 0 or 1.
    pub fn bool(self, value: bool) -> Self {
        self.u8(value.into())
    }

    /// Adds a `char[size]` or a struct of that size: bytes that are missing are zeros, and others are left out.
    pub fn fixed(mut self, value: &[u8], size: usize) -> Self {
        let end = self.fixed.len() + size;
        self.fixed.extend(&value[..size.min(value.len())]);
        self.fixed.resize(end, 0);
        self
    }

    /// Adds a `__rel_loc char[]`.
    pub fn str(mut self, value: &str) -> Self {
        let from = self.data.len();
        self.data.extend(value.as_bytes());
        self.data.push(0);
        self.dynamic(from)
    }

    /// Adds another `__rel_loc` array, such as `u8[]`.
    pub fn bytes(mut self, value: &[u8]) -> Self {
        let from = self.data.len();
        self.data.extend(value);
        self.dynamic(from)
    }

    fn dynamic(mut self, from: usize) -> Self {
        self.dynamic.push([self.fixed.len(), from, self.data.len() - from]);
        self.u32(0)
    }

    /// Brings the dynamic fields behind the others. What does not fit is too big.
    fn finish(mut self) -> (Target, Vec<u8>) {
        let size = self.fixed.len();
        for [at, from, length] in self.dynamic {
            let location = (length as u32) << 16 | (size + from - at - 4) as u32 & 0xffff;
            self.fixed[at..at + 4].copy_from_slice(&location.to_ne_bytes());
        }
        self.fixed.append(&mut self.data);
        (self.target, self.fixed)
    }

    /// Writes the record. `Ok(false)`: the event is off by now.
    pub fn end(self) -> Result<bool, WriteError> {
        let (target, record) = self.finish();
        target.write(record)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_endian = "little")]
    fn dynamic_fields_are_behind_the_others() {
        let target = crate::event::Target { handle: crate::connection::common().unwrap(), event: 0 };
        let record = super::Record::new(target).u8(1).str("ab").u16(2).bytes(&[9]).fixed(b"xyz", 2).fixed(b"x", 2);
        let wanted = [1, 10, 0, 3, 0, 2, 0, 7, 0, 1, 0, b'x', b'y', b'x', 0, b'a', b'b', 0, 9];
        assert_eq!(record.finish().1[4..], wanted);
    }
}
