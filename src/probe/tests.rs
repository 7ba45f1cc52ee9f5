use super::*;

fn asked(value: &str, option: Option<Io>) -> (Io, Source) {
    requested(Some(OsStr::new(value)), option).unwrap()
}

#[test]
fn the_variable_beats_the_option() {
    assert_eq!(asked("fsync", Some(Io::Uring)), (Io::Fsync, Source::Env));
    assert_eq!(asked("uring", Some(Io::Fsync)), (Io::Uring, Source::Env));
    assert_eq!(asked("auto", Some(Io::Fsync)), (Io::Auto, Source::Env));
}

#[test]
fn unset_and_empty_leave_it_to_the_option() {
    for value in [None, Some(OsStr::new(""))] {
        assert_eq!(requested(value, None).unwrap(), (Io::Auto, Source::Auto));
        assert_eq!(requested(value, Some(Io::Auto)).unwrap(), (Io::Auto, Source::Auto));
        assert_eq!(requested(value, Some(Io::Uring)).unwrap(), (Io::Uring, Source::Options));
        assert_eq!(requested(value, Some(Io::Fsync)).unwrap(), (Io::Fsync, Source::Options));
    }
}

#[test]
fn epoll_is_another_word_for_fsync() {
    assert_eq!(asked("epoll", None), (Io::Fsync, Source::Env));
}

#[test]
fn anything_else_is_an_error_that_lists_the_words() {
    use std::os::unix::ffi::OsStrExt;
    for value in [&b"URING"[..], b"io_uring", b"1", b" uring", b"fsync,uring", b"\xff"] {
        match requested(Some(OsStr::from_bytes(value)), None) {
            Err(Error::Config { what }) => {
                for word in ["auto", "uring", "fsync", "epoll"] {
                    assert!(what.contains(word), "{what}");
                }
            }
            other => panic!("{value:?} gave {other:?}"),
        }
    }
}
