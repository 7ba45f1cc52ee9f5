//! Values on the command line.

use wo_wal::Lsn;

/// Records are numbered from 1.
pub(crate) fn lsn(text: &str) -> Result<Lsn, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(Lsn::new(number)),
        _ => Err("an LSN is a number from 1".to_owned()),
    }
}

/// A number of bytes; K, M and G stand for 1024 bytes and its powers.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((place, 'K' | 'k')) => (&text[..place], 1 << 10),
        Some((place, 'M' | 'm')) => (&text[..place], 1 << 20),
        Some((place, 'G' | 'g')) => (&text[..place], 1 << 30),
        _ => (text, 1),
    };
    let number = digits.parse().ok().filter(|_| !digits.starts_with('+'));
    number
        .and_then(|number: u64| number.checked_mul(unit))
        .ok_or_else(|| "a size is a number of bytes, or a number and K, M or G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{bytes, lsn};

    #[test]
    fn sizes_with_and_without_a_unit() {
        assert_eq!(bytes("65536"), Ok(65536));
        assert_eq!(bytes("64K"), Ok(64 << 10));
        assert_eq!(bytes("8m"), Ok(8 << 20));
        assert_eq!(bytes("1G"), Ok(1 << 30));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "K", "1T", "-1", "+1", "1.5M", "1 K", "99999999999999999999", "99999999999999999G", "1é"]
        {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lsns_start_at_one() {
        assert!(lsn("0").is_err());
        assert_eq!(lsn("1").map(wo_wal::Lsn::get), Ok(1));
    }
}
