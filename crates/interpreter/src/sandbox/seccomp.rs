//! What a sandbox may ask of Linux: a filter of system calls, in the kernel's own form.
//!
//! Namespaces do not divide everything. Keys of the kernel, sockets to the host of a virtual machine and Bluetooth, for
//! example, are the same in all of them, so these calls fail here. The source of the form is Linux'
//! `Documentation/userspace-api/seccomp_filter.rst` and `linux/filter.h`.

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, ENOSYS, EPERM, NETLINK_ROUTE, SYS_acct, SYS_add_key, SYS_bpf, SYS_chroot,
    SYS_clock_settime, SYS_delete_module, SYS_fallocate, SYS_fanotify_init, SYS_finit_module, SYS_fsconfig,
    SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_init_module, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_io_uring_setup, SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_memfd_create,
    SYS_memfd_secret, SYS_mount, SYS_mount_setattr, SYS_move_mount, SYS_msgget, SYS_name_to_handle_at,
    SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open, SYS_pidfd_getfd, SYS_pivot_root, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_ptrace, SYS_quotactl, SYS_reboot, SYS_request_key, SYS_semget, SYS_setdomainname,
    SYS_sethostname, SYS_setns, SYS_settimeofday, SYS_shmget, SYS_socket, SYS_swapoff, SYS_swapon, SYS_syslog,
    SYS_umount2, SYS_unshare, SYS_userfaultfd,
};

/// Calls that fail with `EPERM`.
const REFUSED: &[libc::c_long] = &[
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_init_module,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
];

/// Calls that a kernel may not have. Programs then do without them. Memory and disk space that these give is neither a
/// process' own nor a file's that can be found, so that nothing would bound it.
const MISSING: &[libc::c_long] = &[
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_fallocate,
    SYS_memfd_create,
    SYS_memfd_secret,
    SYS_shmget,
    SYS_semget,
    SYS_msgget,
];

/// The kinds of sockets that a network namespace divides.
const SOCKETS: &[libc::c_int] = &[AF_UNIX, AF_INET, AF_INET6];

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const FAIL: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;

#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u32> = None;

/// Returns the filter as bwrap reads it, unless this machine is of a kind that it does not know.
pub(super) fn filter() -> Option<Vec<u8>> {
    let machine = MACHINE?;
    let mut program = Vec::new();
    // A 64-bit system also runs 32-bit programs, whose calls have other numbers.
    program.extend([step(LOAD, 0, 0, 4), step(EQUAL, 1, 0, machine), step(RETURN, 0, 0, KILL)]);
    program.push(step(LOAD, 0, 0, 0));
    // And x86 has the same calls once more under other numbers.
    program.extend([step(AT_LEAST, 0, 1, 0x4000_0000), step(RETURN, 0, 0, FAIL | ENOSYS as u32)]);
    for (calls, error) in [(REFUSED, EPERM), (MISSING, ENOSYS)] {
        for call in calls {
            program.extend([step(EQUAL, 0, 1, *call as u32), step(RETURN, 0, 0, FAIL | error as u32)]);
        }
    }
    let families = SOCKETS.len() as u8;
    program.push(step(EQUAL, 0, families + 5, SYS_socket as u32));
    program.push(step(LOAD, 0, 0, 16));
    for index in 0..families {
        program.push(step(EQUAL, families - index + 3, 0, SOCKETS[usize::from(index)] as u32));
    }
    // ZeroMQ asks for the addresses of its own namespace. The rest of netlink is not divided.
    program.extend([
        step(EQUAL, 0, 2, AF_NETLINK as u32),
        step(LOAD, 0, 0, 32),
        step(EQUAL, 1, 0, NETLINK_ROUTE as u32),
    ]);
    program.push(step(RETURN, 0, 0, FAIL | EPERM as u32));
    program.push(step(RETURN, 0, 0, ALLOW));
    Some(program.concat())
}

/// One instruction: `if_true` and `if_false` say how many to skip.
fn step(code: u16, if_true: u8, if_false: u8, value: u32) -> [u8; 8] {
    let [a, b] = code.to_ne_bytes();
    let [c, d, e, f] = value.to_ne_bytes();
    [a, b, if_true, if_false, c, d, e, f]
}
