//! The encodings of clients: texts are UTF-8 here, and are converted on their way in and out.
//!
//! A message in another encoding is rewritten in UTF-8 before it is decoded ([`Encoding::rewrite`]), so that nothing else
//! knows of encodings; answers are converted where texts are appended to them.
//!
//! # Invariants
//! Every encoding that the setting `client_encoding` accepts is known here. SQL_ASCII converts nothing, as in PostgreSQL: its
//! texts are the server's.

use std::borrow::Cow;

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, EncoderResult, GB18030, GBK, IBM866, ISO_8859_2, ISO_8859_3, ISO_8859_4,
    ISO_8859_5, ISO_8859_6, ISO_8859_7, ISO_8859_8, ISO_8859_10, ISO_8859_13, ISO_8859_14, ISO_8859_15,
    ISO_8859_16, KOI8_R, KOI8_U, SHIFT_JIS, WINDOWS_874, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252,
    WINDOWS_1253, WINDOWS_1254, WINDOWS_1255, WINDOWS_1256, WINDOWS_1257, WINDOWS_1258,
};

use super::{Fields, ProtocolError};

/// The characters of LATIN5 that differ from LATIN1's.
const LATIN5: [(u8, char); 6] =
    [(0xd0, 'Ğ'), (0xdd, 'İ'), (0xde, 'Ş'), (0xf0, 'ğ'), (0xfd, 'ı'), (0xfe, 'ş')];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Table {
    /// Bytes are code points, but for these.
    Latin(&'static [(u8, char)]),
    Other(&'static encoding_rs::Encoding),
}

/// An encoding other than UTF-8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Encoding {
    name: &'static str,
    table: Table,
}

const ENCODINGS: &[Encoding] = &[
    Encoding { name: "LATIN1", table: Table::Latin(&[]) },
    Encoding { name: "LATIN5", table: Table::Latin(&LATIN5) },
    other("BIG5", BIG5),
    other("EUC_CN", GBK),
    other("EUC_JP", EUC_JP),
    other("EUC_KR", EUC_KR),
    other("GB18030", GB18030),
    other("GBK", GBK),
    other("ISO_8859_5", ISO_8859_5),
    other("ISO_8859_6", ISO_8859_6),
    other("ISO_8859_7", ISO_8859_7),
    other("ISO_8859_8", ISO_8859_8),
    other("KOI8R", KOI8_R),
    other("KOI8U", KOI8_U),
    other("LATIN2", ISO_8859_2),
    other("LATIN3", ISO_8859_3),
    other("LATIN4", ISO_8859_4),
    other("LATIN6", ISO_8859_10),
    other("LATIN7", ISO_8859_13),
    other("LATIN8", ISO_8859_14),
    other("LATIN9", ISO_8859_15),
    other("LATIN10", ISO_8859_16),
    other("SJIS", SHIFT_JIS),
    other("UHC", EUC_KR),
    other("WIN866", IBM866),
    other("WIN874", WINDOWS_874),
    other("WIN1250", WINDOWS_1250),
    other("WIN1251", WINDOWS_1251),
    other("WIN1252", WINDOWS_1252),
    other("WIN1253", WINDOWS_1253),
    other("WIN1254", WINDOWS_1254),
    other("WIN1255", WINDOWS_1255),
    other("WIN1256", WINDOWS_1256),
    other("WIN1257", WINDOWS_1257),
    other("WIN1258", WINDOWS_1258),
];

const fn other(name: &'static str, encoding: &'static encoding_rs::Encoding) -> Encoding {
    Encoding { name, table: Table::Other(encoding) }
}

impl Encoding {
    /// The encoding of this name, as SHOW prints it; `None` for those that need no conversion.
    pub(crate) fn of(name: &str) -> Option<Encoding> {
        ENCODINGS.iter().find(|encoding| encoding.name == name).copied()
    }

    /// A text of the client's.
    ///
    /// # Errors
    /// 22021: bytes that are no characters of the encoding.
    pub(crate) fn decode<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, str>, ProtocolError> {
        if bytes.is_ascii()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return Ok(text.into());
        }
        match self.table {
            Table::Latin(others) => Ok(bytes.iter().map(|byte| latin(*byte, others)).collect()),
            Table::Other(encoding) => {
                encoding.decode_without_bom_handling_and_without_replacement(bytes).ok_or_else(|| {
                    let start = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(0);
                    ProtocolError::invalid_text(self.name, &bytes[start..bytes.len().min(start + 2)])
                })
            }
        }
    }

    /// Appends a text for the client.
    ///
    /// # Errors
    /// The first character that the encoding does not have; what precedes it has been appended.
    pub(crate) fn encode(&self, text: &str, into: &mut Vec<u8>) -> Result<(), char> {
        if text.is_ascii() {
            into.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        match self.table {
            Table::Latin(others) => text.chars().try_for_each(|character| {
                into.push(to_latin(character, others).ok_or(character)?);
                Ok(())
            }),
            Table::Other(encoding) => {
                let mut encoder = encoding.new_encoder();
                let mut rest = text;
                let mut room = [0; 1024];
                loop {
                    let (result, read, written) =
                        encoder.encode_from_utf8_without_replacement(rest, &mut room, true);
                    into.extend_from_slice(&room[..written]);
                    rest = &rest[read..];
                    match result {
                        EncoderResult::InputEmpty => return Ok(()),
                        EncoderResult::OutputFull => (),
                        EncoderResult::Unmappable(character) => return Err(character),
                    }
                }
            }
        }
    }

    /// Appends a text for the client, with `?` for what the encoding does not have: a message must arrive.
    pub(crate) fn encode_lossy(&self, text: &str, into: &mut Vec<u8>) {
        if self.encode(text, &mut Vec::new()).is_ok() {
            // It was encoded as a whole just now.
            let _ = self.encode(text, into);
            return;
        }
        for character in text.chars() {
            if self.encode(character.encode_utf8(&mut [0; 4]), into).is_err() {
                into.push(b'?');
            }
        }
    }

    /// The message of PostgreSQL for a character that the encoding does not have (22P05).
    pub(crate) fn no_equivalent(&self, character: char) -> String {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).bytes().map(|byte| format!("0x{byte:02x}"));
        let bytes: Vec<String> = bytes.collect();
        format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"{}\"",
            bytes.join(" "),
            self.name
        )
    }

    /// The body of a message with its texts in UTF-8. The parameters of a Bind are converted where their format is text.
    ///
    /// # Errors
    /// 22021; a message that is none of this type.
    pub(crate) fn rewrite(&self, tag: u8, body: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let mut fields = Fields::new(body);
        let mut into = Vec::with_capacity(body.len());
        let texts = match tag {
            b'Q' | b'f' | b'E' => 1,
            b'P' | b'B' => 2,
            b'D' | b'C' => {
                into.push(fields.u8()?);
                1
            }
            _ => 0,
        };
        for _ in 0..texts {
            into.extend_from_slice(self.decode(fields.raw_text()?)?.as_bytes());
            into.push(0);
        }
        if tag == b'B' {
            self.rewrite_parameters(&mut fields, &mut into)?;
        }
        into.extend_from_slice(fields.remaining());
        Ok(into)
    }

    fn rewrite_parameters(&self, fields: &mut Fields<'_>, into: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let count = fields.u16()?;
        into.extend(count.to_be_bytes());
        let formats = (0..count).map(|_| fields.u16()).collect::<Result<Vec<_>, _>>()?;
        formats.iter().for_each(|format| into.extend(format.to_be_bytes()));
        let count = fields.u16()?;
        into.extend(count.to_be_bytes());
        for at in 0..usize::from(count) {
            let Some(value) = fields.value()? else {
                into.extend([0xff; 4]);
                continue;
            };
            let format = if formats.len() == 1 { formats[0] } else { formats.get(at).copied().unwrap_or(0) };
            let value = if format == 0 {
                match self.decode(value)? {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                }
            } else {
                Cow::Borrowed(value)
            };
            into.extend((value.len() as u32).to_be_bytes());
            into.extend_from_slice(&value);
        }
        Ok(())
    }
}

fn latin(byte: u8, others: &[(u8, char)]) -> char {
    let found = others.iter().find(|(of, _)| *of == byte);
    found.map_or(char::from(byte), |(_, character)| *character)
}

fn to_latin(character: char, others: &[(u8, char)]) -> Option<u8> {
    if let Some((byte, _)) = others.iter().find(|(_, of)| *of == character) {
        return Some(*byte);
    }
    u8::try_from(u32::from(character)).ok().filter(|byte| latin(*byte, others) == character)
}

/// A text in UTF-8.
///
/// # Errors
/// 22021, with the bytes of the first character that is none, as PostgreSQL counts them.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let rest = &bytes[error.valid_up_to()..];
        let length = match rest[0] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => 1,
        };
        ProtocolError::invalid_text("UTF8", &rest[..length.min(rest.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> Encoding {
        Encoding::of(name).expect("it is known")
    }

    #[test]
    fn every_encoding_that_the_setting_accepts_is_known() {
        for name in heddle_sql::client_encodings() {
            let needs_none = ["UTF8", "SQL_ASCII"].contains(&name);
            assert_eq!(Encoding::of(name).is_none(), needs_none, "{name}");
        }
        assert_eq!(ENCODINGS.len() + 2, heddle_sql::client_encodings().count());
    }

    #[test]
    fn texts_return_as_they_were() {
        for (name, text, bytes) in [
            ("LATIN1", "Grüße, ÿ\u{80}", &b"Gr\xfc\xdfe, \xff\x80"[..]),
            ("LATIN5", "ğüşıöç", b"\xf0\xfc\xfe\xfd\xf6\xe7"),
            ("WIN1252", "„€“", b"\x84\x80\x93"),
            ("LATIN9", "€", b"\xa4"),
            ("KOI8R", "Мир", b"\xed\xc9\xd2"),
            ("SJIS", "日本", b"\x93\xfa\x96\x7b"),
        ] {
            let mut encoded = Vec::new();
            assert_eq!(encoding(name).encode(text, &mut encoded), Ok(()), "{name}");
            assert_eq!(encoded, bytes, "{name}");
            assert_eq!(encoding(name).decode(&encoded).as_deref(), Ok(text), "{name}");
        }
        let long = "€".repeat(5_000);
        let mut encoded = Vec::new();
        assert_eq!(encoding("WIN1252").encode(&long, &mut encoded), Ok(()));
        assert_eq!(encoded, vec![0x80; 5_000]);
    }

    #[test]
    fn a_character_that_the_encoding_lacks_is_an_error_or_a_question_mark() {
        let latin = encoding("LATIN1");
        assert_eq!(latin.encode("a€", &mut Vec::new()), Err('€'));
        assert!(latin.no_equivalent('€').contains("0xe2 0x82 0xac"));
        let mut lossy = Vec::new();
        latin.encode_lossy("ü€!", &mut lossy);
        assert_eq!(lossy, b"\xfc?!");
        assert_eq!(encoding("LATIN5").encode("Ð", &mut Vec::new()), Err('Ð'));
        assert_eq!(encoding("SJIS").decode(b"a\x81").map_err(|error| error.state), Err("22021"));
    }

    #[test]
    fn a_bind_is_rewritten_but_for_its_binary_parameters() {
        let body = b"\xfc\0s\0\0\x02\0\0\0\x01\0\x02\0\0\0\x01\xe4\0\0\0\x01\xe4\0\0";
        let rewritten = encoding("LATIN1").rewrite(b'B', body).expect("it is one");
        let expected = "ü\0s\0\0\x02\0\0\0\x01\0\x02\0\0\0\x02ä\0\0\0\x01";
        assert_eq!(rewritten, [expected.as_bytes(), b"\xe4\0\0"].concat());
    }

    #[test]
    fn invalid_utf8_is_quoted_as_postgres_does() {
        let message = |bytes: &[u8]| utf8(bytes).err().map(|error| error.message);
        let expected = |bytes: &str| Some(format!("invalid byte sequence for encoding \"UTF8\": {bytes}"));
        assert_eq!(message(b"a\xff"), expected("0xff"));
        assert_eq!(message(b"\xc3("), expected("0xc3 0x28"));
        assert_eq!(message(b"\xe2\x82"), expected("0xe2 0x82"));
    }
}
