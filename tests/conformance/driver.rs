// SPDX-License-Identifier: GPL-2.0-or-later

//! The driver of the client for Rust: see README.

use std::collections::HashMap;
use std::io::BufRead;
use std::thread::sleep;
use std::time::{Duration, Instant};

use userev::{Connection, Event};

/// A field's form: a number, or an array of numbers.
enum Form {
    Number,
    Chars(usize),
    Struct(usize),
    Dynamic { is_text: bool, is_relative: bool },
}

struct Field {
    name: String,
    form: Form,
    bits: u32, // of an element
    is_signed: bool,
}

struct Driven {
    event: Event,
    fields: Vec<Field>,
}

struct Program {
    connections: HashMap<String, (HashMap<String, Driven>, Connection)>,
    current: String,
}

fn parse_field(words: &[&str]) -> Option<Field> {
    let (name, mut words) = (words.last()?.to_string(), words.to_vec());
    if let ["struct", _, name, size] = words[..] {
        return Some(Field { name: name.into(), form: Form::Struct(size.parse().ok()?), bits: 8, is_signed: false });
    }
    words.pop();
    let location = words.first().filter(|word| word.starts_with("__")).map(|word| word.starts_with("__rel"));
    let is_unsigned = words.contains(&"unsigned");
    let (kind, size) = words.last()?.split_once('[').map_or((*words.last()?, None), |(kind, size)| (kind, Some(size)));
    let bits = match kind {
        "char" => 8,
        "short" => 16,
        "int" => 32,
        _ => kind[1..].parse().ok()?,
    };
    let form = match (location, size) {
        (Some(is_relative), _) => Form::Dynamic { is_text: kind == "char", is_relative },
        (None, Some(size)) => Form::Chars(size.trim_end_matches(']').parse().ok()?),
        (None, None) => Form::Number,
    };
    Some(Field { name, form, bits, is_signed: !is_unsigned && !kind.starts_with('u') })
}

/// The event's name, and its fields. A field that is not understood is one that the daemon refuses.
fn parse(description: &str) -> (String, Vec<Field>) {
    let (name, fields) = description.trim().split_once(char::is_whitespace).unwrap_or((description.trim(), ""));
    let fields = fields.split(';').filter_map(|field| parse_field(&field.split_whitespace().collect::<Vec<_>>()));
    (name.split(':').next().unwrap_or_default().into(), fields.collect())
}

fn number(text: &str, field: &Field) -> Result<Vec<u8>, String> {
    let value: i128 = text.parse().map_err(|_| format!("{text} is no number"))?;
    let (low, high) = if field.is_signed { (-(1 << (field.bits - 1)), 1 << (field.bits - 1)) } else { (0, 1 << field.bits) };
    if !(low..high).contains(&value) {
        return Err(format!("{text} is outside of {}", field.name));
    }
    Ok(match field.bits {
        8 => (value as u8).to_ne_bytes().into(),
        16 => (value as u16).to_ne_bytes().into(),
        32 => (value as u32).to_ne_bytes().into(),
        _ => (value as u64).to_ne_bytes().into(),
    })
}

fn hexadecimal(digits: &str) -> Result<u8, String> {
    u8::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

fn bytes_of(value: &str, field: &Field) -> Result<Vec<u8>, String> {
    if let Some(text) = value.strip_prefix('"') {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(hexadecimal(&part[..2])?);
            bytes.extend(part[2..].bytes());
        }
        return Ok(bytes);
    }
    if let Some(digits) = value.strip_prefix('#') {
        return (0..digits.len() / 2).map(|at| hexadecimal(&digits[2 * at..2 * at + 2])).collect();
    }
    let numbers = value.trim_matches(|c| c == '[' || c == ']').split(',').filter(|one| !one.is_empty());
    Ok(numbers.map(|one| number(one, field)).collect::<Result<Vec<_>, _>>()?.concat())
}

fn build(fields: &[Field], words: &[&str]) -> Result<Vec<u8>, String> {
    let mut values: HashMap<&str, &str> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let (mut payload, mut later) = (Vec::new(), Vec::new());
    for field in fields {
        let value = values.remove(&field.name[..]).ok_or(format!("{} has no value", field.name))?;
        let mut data = bytes_of(value, field)?;
        match field.form {
            Form::Number => (),
            Form::Dynamic { is_text, is_relative } => {
                data.extend(is_text.then(|| 0));
                later.push((payload.len(), is_relative, data));
                data = vec![0; 4];
            }
            Form::Struct(size) if data.len() != size => return Err(format!("{} takes {size} bytes", field.name)),
            Form::Chars(size) if data.len() > size => return Err(format!("{} takes {size} bytes", field.name)),
            Form::Struct(size) | Form::Chars(size) => data.resize(size, 0),
        }
        payload.extend(data);
    }
    if let Some(name) = values.keys().next() {
        return Err(format!("{name} is not a field"));
    }
    for (at, is_relative, data) in later {
        let offset = if is_relative { payload.len() - at - 4 } else { payload.len() + 8 };
        let location = (data.len() as u32) << 16 | offset as u32 & 0xffff;
        payload[at..at + 4].copy_from_slice(&location.to_ne_bytes());
        payload.extend(data);
    }
    Ok(payload)
}

fn measure(event: &Event, turns: u64) -> String {
    let begin = Instant::now();
    for turn in 0..turns {
        if let Some(record) = event.begin() {
            let _ = record.u32(404).u64(turn).str("/favicon.ico").end();
        }
    }
    begin.elapsed().as_nanos().to_string()
}

impl Program {
    fn use_connection(&mut self, number: &str) -> String {
        self.current = number.into();
        let open = || (HashMap::new(), Connection::open().expect("there is no memory"));
        self.connections.entry(number.into()).or_insert_with(open);
        "ok".into()
    }

    fn register(&mut self, description: &str) -> String {
        let (name, fields) = parse(description);
        let (events, connection) = self.connections.get_mut(&self.current).unwrap();
        match connection.register(description) {
            Err(refusal) => return format!("refused {refusal}"),
            Ok(event) => events.entry(name).or_insert(Driven { event, fields }),
        };
        "ok".into()
    }

    fn obey(&mut self, words: &[&str]) -> String {
        match words {
            ["can"] => return "hold answer connections".into(),
            ["use", number] => return self.use_connection(number),
            ["register", description] => return self.register(description),
            _ => (),
        }
        let (events, _) = self.connections.get_mut(&self.current).unwrap();
        let driven = match events.get(words[1]) {
            Some(driven) => driven,
            None => return format!("error: there is no event {}", words[1]),
        };
        match words {
            ["await", _, wanted] => {
                let end = Instant::now() + Duration::from_secs(60);
                while driven.event.is_on() != (*wanted == "yes") && Instant::now() < end {
                    sleep(Duration::from_millis(5));
                }
                if driven.event.is_on() { "yes" } else { "no" }.into()
            }
            ["write", _, values @ ..] => match build(&driven.fields, values) {
                Err(problem) => format!("wrong {problem}"),
                Ok(payload) => match driven.event.write(&payload) {
                    Ok(true) => "written".into(),
                    Ok(false) => "off".into(),
                    Err(error) => format!("lost {error}"),
                },
            },
            ["measure", _, turns] => measure(&driven.event, turns.parse().unwrap_or(0)),
            ["release", name] => {
                events.remove(*name);
                "ok".into()
            }
            _ => "error".into(),
        }
    }
}

fn main() {
    let mut program = Program { connections: HashMap::new(), current: String::new() };
    program.use_connection("0");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the suite sends lines");
        println!("{}", program.obey(&line.split('\t').collect::<Vec<_>>()));
    }
}
