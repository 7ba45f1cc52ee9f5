//! One test per row of the table, and the rows' variants.

use super::*;

fn abc() -> Image {
    let mut image = Image::new();
    image.acked_group(&[b"a"]);
    image.acked_group(&[b"b1", b"b2"]);
    image.group(&[b"c"]);
    image
}

#[test]
fn row_a_only_zeros_behind_the_last_group_is_a_clean_end() {
    let opened = open(&abc()).unwrap();
    assert_eq!(opened.records().unwrap(), [&b"a"[..], b"b1", b"b2", b"c"]);
    assert_eq!(opened.recovered.report.cut_bytes, 0);
}
