// SPDX-License-Identifier: LGPL-2.1-or-later

//! The packets of userevd-protocol(7): bytes in, checked values out.

use std::{borrow::Cow, fmt};

use crate::Error;

macro_rules! numbers {
    ($($type:ty { $($(#[$doc:meta])* $name:ident = $value:literal),* })*) => {
        $($($(#[$doc])* pub const $name: $type = $value;)*)*
    };
}
pub(crate) use numbers;

numbers! {
    usize {
        PACKET_MAX = 131072, DESCRIPTION_MAX = 511, FDS_MAX = 8, PAYLOAD_MAX = 4064, TRACES_MAX = 4,
        PAGE_BYTES = 4096, TRACED_AT = 4096, TRACES_AT = 8192, PAGE_FILE_BYTES = 40960
    }
    u8 { TRACED_ONLY = 0x80 }
    u16 {
        KIND_HELLO = 1, KIND_WELCOME = 2, KIND_REGISTER = 3, KIND_REGISTERED = 4, KIND_RELEASE = 5, KIND_RELEASED = 6,
        KIND_LOST = 12, KIND_ERROR = 13, KIND_TRACED = 16,
        /// Of an event: it outlives its programs, where the admin permits that.
        REGISTER_PERSIST = 1,
        /// Of an event: its name may be used with other fields, too.
        REGISTER_MULTI_FORMAT = 2
    }
    u64 { FEATURE_PERSIST = 2, FEATURE_MULTI_FORMAT = 4, FEATURE_OWN_TRACES = 16 }
}

/// As many events as certainly fit into a packet.
pub const BATCH: usize = 250;

const REASONS: &str = "none bad-packet unknown-kind unexpected-fds hello-first feature-missing wrong-user unknown-peer too-slow \
    too-many-connections bad-description name-taken quota-exceeded page-full machine-full not-permitted kernel-too-old no-such-event \
    trouble not-the-tracer self-registered in-use";

/// The daemon's answer to an event, or to a connection, that it does not grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One of the protocol's names, for programs: `quota-exceeded`.
    pub reason: Cow<'static, str>,
    /// For people: what to change.
    pub sentence: String,
}

impl Refusal {
    pub(crate) fn new(number: u16, sentence: &[u8]) -> Refusal {
        let known = REASONS.split(' ').nth(number.into()).filter(|_| number > 0);
        let reason = known.map_or_else(|| format!("reason-{number}").into(), Cow::from);
        Refusal { reason, sentence: String::from_utf8_lossy(sentence).into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "userev: {} ({})", self.sentence, self.reason)
    }
}

impl std::error::Error for Refusal {}

/// Reads little-endian numbers, and fails at the end of its bytes.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let taken = self.0.get(..count).ok_or(Error::BadPacket)?;
        self.0 = &self.0[count..];
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.bytes(N)?.try_into().map_err(|_| Error::BadPacket)
    }

    pub fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }
}

/// A packet's kind, serial, numbers of streams, and body.
pub fn decode(data: &[u8]) -> Result<(u16, u32, Vec<u32>, Cursor<'_>), Error> {
    let mut body = Cursor(data);
    let (size, kind, [_flags, count]) = (body.u32()?, body.u16()?, body.array()?);
    let (serial, _zero) = (body.u32()?, body.u32()?);
    if size as usize != data.len() || count as usize > FDS_MAX {
        return Err(Error::BadPacket);
    }
    let streams = (0..count).map(|_| body.u32()).collect::<Result<_, _>>()?;
    Ok((kind, serial, streams, body))
}

pub fn encode(kind: u16, serial: u32, body: &[u8]) -> Vec<u8> {
    let size = (16 + body.len()) as u32;
    [&size.to_le_bytes()[..], &kind.to_le_bytes(), &[0; 2], &serial.to_le_bytes(), &[0; 4], body].concat()
}

/// Adds an event to the body of REGISTER.
pub fn append_item(body: &mut Vec<u8>, flags: u16, description: &str) {
    body.extend([flags.to_le_bytes(), (description.len() as u16).to_le_bytes()].concat());
    body.extend(description.as_bytes());
    body.resize((body.len() + 3) & !3, 0);
}

/// A refusal and its text; or a bit, a stream and an index.
pub type Answer<'a> = (u16, &'a [u8], [u32; 3]);

pub fn decode_registered(mut body: Cursor<'_>) -> Result<Vec<Answer<'_>>, Error> {
    let (count, _zero) = (body.u16()?, body.u16()?);
    let mut answers = Vec::new();
    for _ in 0..count {
        let (refusal, length) = (body.u16()?, body.u16()? as usize);
        let place = [body.u32()?, body.u32()?, body.u32()?];
        let text = body.bytes(length)?;
        body.bytes(length.wrapping_neg() & 3)?;
        answers.push((refusal, text, place));
    }
    body.0.is_empty().then(|| answers).ok_or(Error::BadPacket)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Whatever comes from a socket is refused or read, and nothing else: each packet with each byte changed, and each part of it.
    #[test]
    fn broken_packets_are_refused() {
        let good = encode(KIND_REGISTERED, 1, &[1, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', 0, 0]);
        let answers = decode(&good).and_then(|(.., body)| decode_registered(body)).unwrap();
        assert_eq!(answers, [(0, &b"ab"[..], [1, 2, 3])]);
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err());
            let body = Cursor(&good[16.min(length)..length]);
            assert!(decode_registered(body).is_err());
        }
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = decode(&bad).and_then(|(.., body)| decode_registered(body).map(|_| ()));
            }
        }
    }

    #[test]
    fn unknown_reason_has_a_number() {
        assert_eq!(Refusal::new(10, b"x").to_string(), "userev: x (bad-description)");
        assert_eq!(Refusal::new(99, b"x").reason, "reason-99");
        assert_eq!(Refusal::new(0, b"x").reason, "reason-0");
    }
}
