//! The frame that a schema registry's serializer puts in front of a message.

use millstream_model::{Fault, Reason};

/// What the serializers of a schema registry begin with.
const REGISTRY: u8 = 0;

/// What those of AWS Glue begin with.
const GLUE: u8 = 3;

/// Bytes of the magic byte and of a schema's number. The number has four bytes, or eight with older serializers of
/// Apicurio.
const HEADS: [usize; 2] = [5, 9];

/// The JSON of a message: all of it, or what follows the frame.
///
/// # Errors
/// The message is framed and holds no JSON.
pub(crate) fn unframed(message: &[u8]) -> Result<&[u8], Fault> {
    match message.first() {
        Some(&REGISTRY) => {
            let json = HEADS.iter().filter_map(|&head| message.get(head..)).find(|rest| begins_as_json(rest));
            json.ok_or_else(|| {
                foreign(
                    "a schema registry's frame around something that is not JSON, such as Avro or Protobuf",
                    "write the topic with a serializer for JSON",
                )
            })
        }
        Some(&GLUE) => Err(foreign("a frame of the AWS Glue schema registry", "write the topic as plain JSON")),
        _ => Ok(message),
    }
}

fn begins_as_json(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start().first(), Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'))
}

#[cold]
fn foreign(what: &str, way_out: &str) -> Fault {
    Fault::new(Reason::NotJson, format!("the message is in {what}; {way_out}, or convert it on its way"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_the_frame_of_a_registry_is_unwrapped() {
        for (message, json) in [
            (&b"{\"id\":1}"[..], &b"{\"id\":1}"[..]),
            (b"\x00\x00\x00\x00\x07{\"id\":1}", b"{\"id\":1}"),
            // The number of the schema looks like JSON.
            (b"\x00\x00\x00\x00{{\"id\":1}", b"{\"id\":1}"),
            (b"\x00\x00\x00\x00\x00\x00\x00\x00\x07{\"id\":1}", b"{\"id\":1}"),
            (b"\x00\x00\x00\x00\x07 \n{}", b" \n{}"),
            (b"", b""),
            (b"no json", b"no json"),
        ] {
            assert_eq!(unframed(message), Ok(json), "{message:?}");
        }
    }

    #[test]
    fn other_frames_are_refused_with_a_hint() {
        for (message, says) in [
            // Avro: a record with a long and a string.
            (&b"\x00\x00\x00\x00\x07\x02\x06abc"[..], "such as Avro or Protobuf; write the topic"),
            // Protobuf: the indexes of the message, and a field.
            (b"\x00\x00\x00\x00\x07\x00\x08\x01", "such as Avro or Protobuf; write the topic"),
            (b"\x00\x00", "such as Avro or Protobuf"),
            (b"\x03\x00abcdefghijklmnop{}", "AWS Glue"),
        ] {
            let fault = unframed(message).expect_err("no JSON");
            assert_eq!(fault.reason, Reason::NotJson);
            assert!(fault.detail.contains(says), "{}", fault.detail);
        }
    }
}
