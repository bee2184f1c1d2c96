//! Tests of the decoder against real servers.

mod decode;
