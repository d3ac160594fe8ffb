//! The folder of a session, with names and contents that nobody may trust.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::os::unix::fs::symlink;

use rolecall_interpreter::{Error, Folder, KernelLimits, KernelOptions};

#[test]
fn names_stay_within_the_folder() {
    let folder = Folder::new(&KernelOptions::default()).unwrap();
    for name in
        ["", "/etc/passwd", "../x", "a/../../x", "a//b", ".", "a/.", "/mnt/data/../x", "a\0b", "a\nb", "/mnt/data/"]
    {
        for end in [folder.write(name, b"x"), folder.read(name).map(|_| ()), folder.remove(name)] {
            assert!(matches!(end, Err(Error::FileName { .. })), "{name:?}: {end:?}");
        }
    }
    folder.write("/mnt/data/a/b", b"x").unwrap();
    assert_eq!(folder.read("a/b").unwrap(), b"x");
}

#[test]
fn links_and_pipes_are_never_followed() {
    let folder = Folder::new(&KernelOptions::default()).unwrap();
    let outside = Folder::new(&KernelOptions::default()).unwrap();
    outside.write("secret", b"secret").unwrap();
    let secret = outside.path().join("secret");
    symlink(&secret, folder.path().join("link")).unwrap();
    symlink(outside.path(), folder.path().join("folder")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for name in ["link", "folder/secret", "pipe", "folder"] {
        assert!(folder.read(name).is_err(), "{name}");
    }
    assert!(folder.list().unwrap().is_empty());
    // A link is replaced, and what it pointed to stays.
    folder.write("link", b"mine").unwrap();
    assert_eq!((folder.read("link").unwrap(), outside.read("secret").unwrap()), (b"mine".to_vec(), b"secret".to_vec()));
    assert!(folder.write("folder/secret", b"x").is_err());
    assert_eq!(outside.read("secret").unwrap(), b"secret");
}

#[test]
fn a_folder_that_is_full_says_so() {
    let limits = KernelLimits { disk: 10_000, files: 2, ..KernelLimits::default() };
    let folder = Folder::new(&KernelOptions { limits, ..KernelOptions::default() }).unwrap();
    assert!(folder.write("a", &[b'x'; 10_001]).is_err());
    folder.write("a", b"1").unwrap();
    folder.write("b", b"1").unwrap();
    assert!(folder.write("c", b"1").is_err());
}

#[test]
fn nothing_is_left_behind() {
    let folder = Folder::new(&KernelOptions::default()).unwrap();
    folder.write("a/b/c", b"x").unwrap();
    let path = folder.path();
    std::fs::set_permissions(path.join("a"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    drop(folder);
    assert!(!path.exists() && !path.parent().unwrap().exists());
}
