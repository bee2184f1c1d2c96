//! Two questions to the kernel that nft answers only after it has read every element of every set, which may be millions.
//! Source: Linux, include/uapi/linux/netfilter/nf_tables.h; the comment as libnftnl stores it.

use millstream_model::Refusal;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

/// Numbers of messages to and from the packet filter: its own number, and that of the message.
const GET_TABLE: u16 = 10 << 8 | 1;
const GET_ELEMENTS: u16 = 10 << 8 | 13;

/// Numbers of messages of netlink itself.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A question; the answer may have several messages.
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;

/// The family `inet`.
const INET: u8 = 1;

/// Attributes.
const TABLE_NAME: u16 = 1;
const TABLE_USERDATA: u16 = 6;
const ELEMENTS_TABLE: u16 = 1;
const ELEMENTS_SET: u16 = 2;
const ELEMENTS: u16 = 3;

/// Bytes of the headers: of netlink, and of the packet filter.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;

/// Largest answer, in bytes. The kernel sends what is longer in several.
const ANSWER_BYTES: usize = 1 << 16;

/// The comment of a table of the family `inet`. `None`: there is no such table.
///
/// # Errors
/// This account may not ask.
pub(crate) fn comment(table: &str) -> Result<Option<String>, Refusal> {
    let socket = asked(GET_TABLE, REQUEST, &[(TABLE_NAME, table)])?;
    let mut answer = vec![0; ANSWER_BYTES];
    let Some(message) = messages(received(&socket, &mut answer)?).next() else { return Ok(None) };
    if !message.is_there()? {
        return Ok(None);
    }
    let userdata = attributes(message.content).find(|(kind, _)| *kind == TABLE_USERDATA);
    // Pieces of a type, a length and so many bytes. The comment is of type 0, and ends with a zero.
    let mut pieces = userdata.map_or(&[][..], |(_, bytes)| bytes);
    while let [kind, length, rest @ ..] = pieces {
        let Some((piece, others)) = rest.split_at_checked(usize::from(*length)) else { break };
        if *kind == 0 {
            let text = piece.split(|byte| *byte == 0).next().unwrap_or_default();
            return Ok(Some(String::from_utf8_lossy(text).into_owned()));
        }
        pieces = others;
    }
    Ok(Some(String::new()))
}

/// Whether a set of a table of the family `inet` has elements. Also `false` if there is no such set.
///
/// # Errors
/// This account may not ask.
pub(crate) fn has_elements(table: &str, set: &str) -> Result<bool, Refusal> {
    let socket = asked(GET_ELEMENTS, REQUEST | DUMP, &[(ELEMENTS_TABLE, table), (ELEMENTS_SET, set)])?;
    let mut answer = vec![0; ANSWER_BYTES];
    // The first answer says it. What follows is lost with the socket.
    for message in messages(received(&socket, &mut answer)?) {
        if !message.is_there()? || message.kind == DONE {
            return Ok(false);
        }
        if attributes(message.content).any(|(kind, bytes)| kind == ELEMENTS && !bytes.is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Message<'a> {
    kind: u16,
    /// What follows the headers.
    content: &'a [u8],
    /// Of an error: which one, as a negative number, or zero for none.
    error: i32,
}

impl Message<'_> {
    /// Whether there is what was asked for.
    fn is_there(&self) -> Result<bool, Refusal> {
        if self.kind != ERROR || self.error == 0 {
            return Ok(true);
        }
        let error = io::Error::from_raw_os_error(self.error.wrapping_neg());
        match error.kind() {
            ErrorKind::NotFound => Ok(false),
            ErrorKind::PermissionDenied => Err(Refusal::new("only root can read and change the filter of this host")),
            _ => Err(Refusal::new(format!("the kernel does not answer about its packet filter: {error}"))),
        }
    }
}

/// Sends a question.
fn asked(kind: u16, flags: u16, attributes: &[(u16, &str)]) -> Result<OwnedFd, Refusal> {
    let mut question = Vec::new();
    question.extend([0; 4]);
    question.extend(kind.to_ne_bytes());
    question.extend(flags.to_ne_bytes());
    // A number of the question and of who asks, which the kernel only repeats, and the family.
    question.extend([0; 8]);
    question.extend([INET, 0, 0, 0]);
    for (kind, text) in attributes {
        let length = 4 + text.len() + 1;
        question.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
        question.extend(kind.to_ne_bytes());
        question.extend(text.as_bytes());
        question.push(0);
        question.resize(question.len().next_multiple_of(4), 0);
    }
    let length = u32::try_from(question.len()).unwrap_or(u32::MAX);
    question[..4].copy_from_slice(&length.to_ne_bytes());
    let netfilter = Some(netlink::NETFILTER);
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, netfilter).map_err(unanswered)?;
    send(&socket, &question, SendFlags::empty()).map_err(unanswered)?;
    Ok(socket)
}

fn received<'a>(socket: &OwnedFd, answer: &'a mut [u8]) -> Result<&'a [u8], Refusal> {
    let (length, _) = recv(socket, &mut *answer, RecvFlags::empty()).map_err(unanswered)?;
    Ok(&answer[..length.min(answer.len())])
}

fn unanswered(error: Errno) -> Refusal {
    Refusal::new(format!("the kernel cannot be asked about its packet filter: {error}"))
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes(message[4..6].try_into().ok()?);
        let error = message.get(HEADER..HEADERS).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
        Some(Message { kind, content: message.get(HEADERS..).unwrap_or_default(), error })
    })
}

/// Attributes by their number, without the bits that say what is in them.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let attribute = bytes.get(..length).filter(|attribute| attribute.len() >= 4)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes(attribute[2..4].try_into().ok()?) & 0x3fff;
        Some((kind, &attribute[4..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_messages_end_where_they_say() {
        let bytes = [7, 0, 6, 0x80, b'a', b'b', b'c', 0, 4, 0, 1, 0, 3, 0, 9];
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(6, &b"abc"[..]), (1, &[][..])]);
        let mut message = vec![0; 20];
        message[..4].copy_from_slice(&20_u32.to_ne_bytes());
        message[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        message[16..20].copy_from_slice(&(-2_i32).to_ne_bytes());
        let both = [&message[..], &message[..19]].concat();
        let found: Vec<_> = messages(&both).collect();
        assert!(found.len() == 1 && found[0].is_there() == Ok(false));
        message[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert!(messages(&message).next().unwrap().is_there().unwrap_err().problem.contains("only root"));
    }
}
