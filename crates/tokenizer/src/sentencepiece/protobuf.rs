use super::super::Error;

/// The fields of a protobuf message, in storage order.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    /// The offset of the message in the file, for errors.
    base: usize,
    at: usize,
}

pub(super) enum FieldValue<'a> {
    Number(u64),
    Float(f32),
    Bytes(&'a [u8]),
    /// A 64-bit number, which no field of interest uses.
    Other,
}

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, base: 0, at: 0 }
    }

    /// Returns the number, the value and the offset of the next field.
    pub fn next_field(&mut self) -> Result<Option<(u64, FieldValue<'a>, usize)>, Error> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let offset = self.base + self.at;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => FieldValue::Number(self.varint()?),
            1 => {
                self.take(8)?;
                FieldValue::Other
            }
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| self.truncated())?;
                FieldValue::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?;
                FieldValue::Float(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            other => {
                return Err(Error::NotRecognized {
                    expected: "a sentencepiece model",
                    why: format!("byte {offset} has protobuf wire type {other}"),
                });
            }
        };
        Ok(Some((tag >> 3, value, offset)))
    }

    /// Returns the fields of a message that is a value of this one.
    pub fn inner(&self, bytes: &'a [u8]) -> Self {
        // The value was the last item read.
        Self { bytes, base: self.base + self.at - bytes.len(), at: 0 }
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::NotRecognized {
            expected: "a sentencepiece model",
            why: format!("the number at byte {} is longer than 64 bits", self.base + self.at),
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len()).ok_or_else(|| self.truncated())?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn truncated(&self) -> Error {
        Error::Truncated { expected: "a sentencepiece model", offset: self.base + self.bytes.len() }
    }
}
