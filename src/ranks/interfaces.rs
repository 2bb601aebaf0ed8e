//! The addresses of this machine, at which other ranks may reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of all interfaces that are up: those of a network first, those of the machine itself last.
pub fn addresses() -> Vec<IpAddr> {
    let mut found = of_interfaces();
    if !found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)) {
        found.push(Ipv4Addr::LOCALHOST.into());
    }
    found.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
    found.dedup();
    found
}

fn of_interfaces() -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes a pointer to `first`, which is there to be written to.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return found;
    }
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is valid until it is freed below, and ends with a null pointer (getifaddrs(3)).
        let interface = unsafe { &*next };
        // SAFETY: `ifa_addr` is null or points to an address of the list.
        found.extend(unsafe { address(interface.ifa_addr) });
        next = interface.ifa_next;
    }
    // SAFETY: `first` is the list that `getifaddrs` made, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// The pointer is null, or points to an address whose structure is that of its family.
unsafe fn address(of: *const libc::sockaddr) -> Option<IpAddr> {
    if of.is_null() {
        return None;
    }
    // SAFETY: not null, and every address begins with its family.
    match i32::from(unsafe { (*of).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says which structure this is; it may not be aligned for it.
            let address = unsafe { of.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { of.cast::<libc::sockaddr_in6>().read_unaligned() };
            // An address of one link needs the interface's number, which means nothing on another machine.
            let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
            (!address.is_unicast_link_local()).then(|| address.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_itself_can_always_be_reached_and_comes_last() {
        let found = addresses();
        assert!(found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "{found:?}");
        let first_local = found.iter().position(IpAddr::is_loopback).unwrap();
        assert!(found[first_local..].iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
