//! The structures and numbers of libibverbs' public interface, version IBVERBS_1.1: what a program compiled against `infiniband/verbs.h`
//! would have in it.
//!
//! Only what this crate uses. Sizes and offsets are asserted here for 64-bit machines, and compared with the header by a test where a C
//! compiler and the header are installed. The library only ever appends to these structures, and the posting and polling functions
//! are reached as in C: through the table of operations in the context.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A structure of the library's of which only pointers are handled.
macro_rules! opaque {
    ($($name:ident),*) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}
opaque!(ibv_device, ibv_pd, ibv_srq);

/// A function in the table that is not called through it.
type Unused = Option<unsafe extern "C" fn()>;

#[repr(C)]
pub struct ibv_context_ops {
    pub unused_before_poll: [Unused; 11],
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub unused_before_post: [Unused; 12],
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub unused_after_post: [Unused; 5],
}

#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
}

#[repr(C)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
}

#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_uint,
    pub qp_type: c_uint,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

/// A port's address; eight-byte aligned, as the union in the header is.
#[repr(C, align(8))]
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub struct ibv_gid {
    pub raw: [u8; 16],
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_qp_attr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// The part of a send work request that RDMA reads and writes use, in the size of the union.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
    pub rest: [u32; 5],
}

#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// In network order.
    pub imm_data: u32,
    pub rdma: ibv_send_wr_rdma,
    pub qp_type: u32,
    pub bind_or_tso: [u64; 6],
}

#[repr(C)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

/// A work completion.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// In network order.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// As the exported function `ibv_query_port` fills it (the macro of that name in the header asks for some fields more).
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_port_attr {
    pub state: c_uint,
    pub max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    /// Fields that were added since; room, should a library fill them.
    pub later: [u32; 16],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_device_attr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub unused: [c_int; 16],
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

pub const IBV_QPT_RC: c_uint = 2;
pub const IBV_PORT_ACTIVE: c_uint = 4;
pub const IBV_LINK_LAYER_ETHERNET: u8 = 2;
pub const IBV_GID_TYPE_ROCE_V2: u32 = 2;

pub const IBV_QPS_INIT: c_uint = 1;
pub const IBV_QPS_RTR: c_uint = 2;
pub const IBV_QPS_RTS: c_uint = 3;
pub const IBV_QPS_ERR: c_uint = 6;

pub const IBV_QP_STATE: c_int = 1;
pub const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub const IBV_QP_PORT: c_int = 1 << 5;
pub const IBV_QP_AV: c_int = 1 << 7;
pub const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub const IBV_QP_DEST_QPN: c_int = 1 << 20;

pub const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub const IBV_ACCESS_REMOTE_WRITE: c_int = 2;
pub const IBV_ACCESS_REMOTE_READ: c_int = 4;

pub const IBV_WR_RDMA_WRITE: c_uint = 0;
pub const IBV_WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
pub const IBV_WR_SEND: c_uint = 2;
pub const IBV_WR_RDMA_READ: c_uint = 4;

pub const IBV_SEND_SIGNALED: c_uint = 2;
pub const IBV_SEND_INLINE: c_uint = 8;

pub const IBV_WC_SUCCESS: c_uint = 0;
#[cfg(test)]
pub const IBV_WC_WR_FLUSH_ERR: c_uint = 5;
pub const IBV_WC_REM_INV_REQ_ERR: c_uint = 9;
pub const IBV_WC_REM_ACCESS_ERR: c_uint = 10;
pub const IBV_WC_REM_OP_ERR: c_uint = 11;
pub const IBV_WC_RETRY_EXC_ERR: c_uint = 12;
pub const IBV_WC_RNR_RETRY_EXC_ERR: c_uint = 13;

/// Asserts offsets and sizes at compile time and, in the test, lists them for the comparison with the header.
macro_rules! layout {
    ($($structure:ident: $size:literal { $($field:ident @ $offset:literal),* };)*) => {
        $(
            const _: () = assert!(size_of::<$structure>() >= $size);
            $(const _: () = assert!(std::mem::offset_of!($structure, $field) == $offset);)*
        )*
        #[cfg(test)]
        const LAYOUT: &[(&str, usize, &[(&str, usize)])] =
            &[$((stringify!($structure), $size, &[$((stringify!($field), $offset)),*])),*];
    };
}
layout! {
    ibv_context: 280 { device @ 0, ops @ 8, cmd_fd @ 264, async_fd @ 268, num_comp_vectors @ 272 };
    ibv_context_ops: 256 { poll_cq @ 88, req_notify_cq @ 96, post_send @ 200, post_recv @ 208 };
    ibv_comp_channel: 16 { context @ 0, fd @ 8, refcnt @ 12 };
    ibv_cq: 32 { context @ 0, channel @ 8, cq_context @ 16, handle @ 24, cqe @ 28 };
    ibv_mr: 48 { context @ 0, pd @ 8, addr @ 16, length @ 24, handle @ 32, lkey @ 36, rkey @ 40 };
    ibv_qp: 64 { context @ 0, qp_context @ 8, pd @ 16, send_cq @ 24, recv_cq @ 32, srq @ 40, handle @ 48, qp_num @ 52, state @ 56, qp_type @ 60 };
    ibv_qp_cap: 20 { max_send_wr @ 0, max_recv_wr @ 4, max_send_sge @ 8, max_recv_sge @ 12, max_inline_data @ 16 };
    ibv_qp_init_attr: 64 { qp_context @ 0, send_cq @ 8, recv_cq @ 16, srq @ 24, cap @ 32, qp_type @ 52, sq_sig_all @ 56 };
    ibv_gid: 16 { raw @ 0 };
    ibv_global_route: 24 { dgid @ 0, flow_label @ 16, sgid_index @ 20, hop_limit @ 21, traffic_class @ 22 };
    ibv_ah_attr: 32 { grh @ 0, dlid @ 24, sl @ 26, src_path_bits @ 27, static_rate @ 28, is_global @ 29, port_num @ 30 };
    ibv_qp_attr: 144 { qp_state @ 0, path_mtu @ 8, rq_psn @ 20, sq_psn @ 24, dest_qp_num @ 28, qp_access_flags @ 32, cap @ 36, ah_attr @ 56,
        alt_ah_attr @ 88, pkey_index @ 120, max_rd_atomic @ 126, max_dest_rd_atomic @ 127, min_rnr_timer @ 128, port_num @ 129,
        timeout @ 130, retry_cnt @ 131, rnr_retry @ 132, alt_timeout @ 134, rate_limit @ 136 };
    ibv_sge: 16 { addr @ 0, length @ 8, lkey @ 12 };
    ibv_send_wr: 128 { wr_id @ 0, next @ 8, sg_list @ 16, num_sge @ 24, opcode @ 28, send_flags @ 32, imm_data @ 36, qp_type @ 72 };
    ibv_recv_wr: 32 { wr_id @ 0, next @ 8, sg_list @ 16, num_sge @ 24 };
    ibv_wc: 48 { wr_id @ 0, status @ 8, opcode @ 12, vendor_err @ 16, byte_len @ 20, imm_data @ 24, qp_num @ 28, src_qp @ 32, wc_flags @ 36,
        pkey_index @ 40, slid @ 42, sl @ 44, dlid_path_bits @ 45 };
    ibv_port_attr: 52 { state @ 0, max_mtu @ 4, active_mtu @ 8, gid_tbl_len @ 12, max_msg_sz @ 20, lid @ 34, link_layer @ 46, flags @ 47 };
    ibv_device_attr: 232 { max_mr_size @ 80, max_qp @ 108, max_qp_wr @ 112, max_cqe @ 132, max_qp_rd_atom @ 144, max_qp_init_rd_atom @ 156, max_pkeys @ 224, phys_port_cnt @ 227 };
    ibv_gid_entry: 32 { gid @ 0, gid_index @ 16, port_num @ 20, gid_type @ 24, ndev_ifindex @ 28 };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// A translation unit that compiles if, and only if, the header agrees.
    fn source(shift: usize) -> String {
        let mut text = String::from("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
        for (structure, _, fields) in LAYOUT {
            for (field, offset) in *fields {
                // The anonymous union's second name.
                let _ = writeln!(
                    text,
                    "_Static_assert(offsetof(struct {structure}, {field}) == {}, \"{structure}.{field}\");",
                    offset + shift
                );
            }
        }
        let numbers = [
            ("IBV_QPT_RC", IBV_QPT_RC),
            ("IBV_PORT_ACTIVE", IBV_PORT_ACTIVE),
            ("IBV_LINK_LAYER_ETHERNET", IBV_LINK_LAYER_ETHERNET.into()),
            ("IBV_GID_TYPE_ROCE_V2", IBV_GID_TYPE_ROCE_V2),
            ("IBV_QPS_INIT", IBV_QPS_INIT),
            ("IBV_QPS_RTR", IBV_QPS_RTR),
            ("IBV_QPS_RTS", IBV_QPS_RTS),
            ("IBV_QPS_ERR", IBV_QPS_ERR),
            ("IBV_QP_ACCESS_FLAGS", IBV_QP_ACCESS_FLAGS as u32),
            ("IBV_QP_PKEY_INDEX", IBV_QP_PKEY_INDEX as u32),
            ("IBV_QP_PORT", IBV_QP_PORT as u32),
            ("IBV_QP_AV", IBV_QP_AV as u32),
            ("IBV_QP_PATH_MTU", IBV_QP_PATH_MTU as u32),
            ("IBV_QP_TIMEOUT", IBV_QP_TIMEOUT as u32),
            ("IBV_QP_RETRY_CNT", IBV_QP_RETRY_CNT as u32),
            ("IBV_QP_RNR_RETRY", IBV_QP_RNR_RETRY as u32),
            ("IBV_QP_RQ_PSN", IBV_QP_RQ_PSN as u32),
            ("IBV_QP_MAX_QP_RD_ATOMIC", IBV_QP_MAX_QP_RD_ATOMIC as u32),
            ("IBV_QP_MIN_RNR_TIMER", IBV_QP_MIN_RNR_TIMER as u32),
            ("IBV_QP_SQ_PSN", IBV_QP_SQ_PSN as u32),
            ("IBV_QP_MAX_DEST_RD_ATOMIC", IBV_QP_MAX_DEST_RD_ATOMIC as u32),
            ("IBV_QP_DEST_QPN", IBV_QP_DEST_QPN as u32),
            ("IBV_ACCESS_LOCAL_WRITE", IBV_ACCESS_LOCAL_WRITE as u32),
            ("IBV_ACCESS_REMOTE_WRITE", IBV_ACCESS_REMOTE_WRITE as u32),
            ("IBV_ACCESS_REMOTE_READ", IBV_ACCESS_REMOTE_READ as u32),
            ("IBV_WR_RDMA_WRITE", IBV_WR_RDMA_WRITE),
            ("IBV_WR_RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM),
            ("IBV_WR_SEND", IBV_WR_SEND),
            ("IBV_WR_RDMA_READ", IBV_WR_RDMA_READ),
            ("IBV_SEND_SIGNALED", IBV_SEND_SIGNALED),
            ("IBV_SEND_INLINE", IBV_SEND_INLINE),
            ("IBV_WC_WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR),
            ("IBV_WC_REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR),
            ("IBV_WC_REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR),
            ("IBV_WC_REM_OP_ERR", IBV_WC_REM_OP_ERR),
            ("IBV_WC_RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR),
            ("IBV_WC_RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR),
        ];
        for (name, number) in numbers {
            let _ = writeln!(text, "_Static_assert({name} == {number}, \"{name}\");");
        }
        // Structures that this crate makes, or that the library copies whole, have exactly the header's size.
        for name in [
            "qp_cap",
            "qp_init_attr",
            "qp_attr",
            "ah_attr",
            "sge",
            "send_wr",
            "recv_wr",
            "wc",
            "gid_entry",
            "device_attr",
        ] {
            let (_, size, _) = LAYOUT.iter().find(|(structure, ..)| structure[4..] == *name).unwrap();
            let _ = writeln!(text, "_Static_assert(sizeof(struct ibv_{name}) == {size}, \"{name}\");");
        }
        // A union has no name of a structure.
        text.replace("struct ibv_gid,", "union ibv_gid,").replace("ibv_send_wr, rdma", "ibv_send_wr, wr")
    }

    /// `None`: there is no compiler.
    fn compiles(source: &str) -> Option<bool> {
        let mut compiler = Command::new("cc")
            .args(["-x", "c", "-fsyntax-only", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        compiler.stdin.take()?.write_all(source.as_bytes()).ok()?;
        let output = compiler.wait_with_output().ok()?;
        let messages = String::from_utf8_lossy(&output.stderr);
        eprintln!("{}", messages.lines().next().unwrap_or_default());
        Some(output.status.success())
    }

    #[test]
    fn the_installed_header_has_this_layout() {
        if compiles("#include <infiniband/verbs.h>\n") != Some(true) {
            eprintln!("skipped: no C compiler, or no infiniband/verbs.h (libibverbs-dev)");
            return;
        }
        assert_eq!(compiles(&source(0)), Some(true));
        assert_eq!(compiles(&source(4)), Some(false), "the comparison must be able to fail");
    }

    #[test]
    fn structures_that_the_library_copies_have_their_exact_size() {
        assert_eq!(size_of::<ibv_qp_init_attr>(), 64);
        assert_eq!(size_of::<ibv_qp_attr>(), 144);
        assert_eq!(size_of::<ibv_send_wr>(), 128);
        assert_eq!(size_of::<ibv_recv_wr>(), 32);
        assert_eq!(size_of::<ibv_wc>(), 48);
        assert_eq!(size_of::<ibv_device_attr>(), 232);
        assert_eq!(size_of::<ibv_gid_entry>(), 32);
    }
}
