//! Encodes numbers and texts: little-endian base-128 numbers, and texts after their length.

use std::sync::Arc;

/// The bytes written so far.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.byte(flag.into());
    }

    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.fixed(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// The bytes left to read. They are not trusted: any unexpected value is reported as damage.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

/// The bytes are not a valid encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Damaged(pub(super) &'static str);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged("it ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Damaged> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged("a flag has an invalid value")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged("a number is too large"))
    }

    pub(super) fn small(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.number()?).map_err(|_| Damaged("a number is too large"))
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Damaged("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        self.take(N)?.try_into().map_err(|_| Damaged("it ends too early"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let n = usize::try_from(self.number()?).map_err(|_| Damaged("a length is too large"))?;
        self.take(n)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged("a text is not UTF-8"))
    }

    pub(super) fn shared(&mut self) -> Result<Arc<str>, Damaged> {
        self.text().map(Arc::from)
    }

    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut writer = Writer::default();
            writer.number(number);
            assert_eq!(Reader(&writer.0).number(), Ok(number));
        }
        assert!(Reader(&[0xFF; 11]).number().is_err());
        assert!(Reader(&[0xFF; 9]).number().is_err());
    }
}
