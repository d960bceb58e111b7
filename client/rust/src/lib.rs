// SPDX-License-Identifier: LGPL-2.1-or-later

#![doc = include_str!("../README.md")]
#![deny(unsafe_code, missing_docs)]

mod connection;
mod declared;
mod event;
mod packets;
mod record;
mod status;
mod sys;

pub use connection::{Connection, Error};
pub use declared::{describe, Declared, Field};
pub use event::{Event, WriteError};
pub use packets::{Refusal, REGISTER_MULTI_FORMAT as MULTI_FORMAT, REGISTER_PERSIST as PERSIST};
pub use record::Record;
