//! From any boot protocol's entry point to Rust, wherever the image was loaded:
//! 64-bit mode, the image relocated and its zeroed part zeroed, descriptor table,
//! page tables and stack of our own.
//!
//! The head of the image holds this code, at the two places that the Linux boot
//! protocol fixes. Until the image is relocated, nothing may be found by absolute
//! address: 32-bit code adds offsets that the linker script gives to the image's
//! base, 64-bit code goes by RIP.

use core::arch::global_asm;

// 32-bit entries: protected mode with flat segments, paging and interrupts off,
// and one register that points to the loader's record. None of them is given a
// stack, which is needed to learn where the image is: a word of the record that
// the protocol leaves unused, or that we do not read, serves.
global_asm!(
    r#"
    .section .head, "ax", @progbits
    .code32
    .set linux_here_offset, linux_here - image_head
    .set linux_long_mode_offset, linux_long_mode - image_head
    .set pvh_here_offset, pvh_here - image_head
    .set pvh_long_mode_offset, pvh_long_mode - image_head
    .set multiboot2_here_offset, multiboot2_here - image_head
    .set multiboot2_long_mode_offset, multiboot2_long_mode - image_head
    .set in_long_mode_offset, in_long_mode - image_head
    .global image_head
image_head:
    # Linux boot protocol, 32-bit: ESI holds boot_params, whose `scratch` is the word.
linux_entry_32:
    lea esp, [esi + 0x1e8]
    call linux_here
linux_here:
    pop ebp
    sub ebp, offset linux_here_offset
    lea edi, [ebp + linux_long_mode_offset]
    jmp enter_long_mode

    # PVH: EBX holds hvm_start_info, whose last word is reserved.
    .global pvh_entry
pvh_entry:
    lea esp, [ebx + 56]
    call pvh_here
pvh_here:
    pop ebp
    sub ebp, offset pvh_here_offset
    mov esi, ebx
    lea edi, [ebp + pvh_long_mode_offset]
    jmp enter_long_mode

    # Multiboot2: EBX holds the boot information, whose second word is reserved.
    .global multiboot2_entry
multiboot2_entry:
    lea esp, [ebx + 8]
    call multiboot2_here
multiboot2_here:
    pop ebp
    sub ebp, offset multiboot2_here_offset
    mov esi, ebx
    lea edi, [ebp + multiboot2_long_mode_offset]
    jmp enter_long_mode

    # Linux boot protocol, 64-bit: RSI holds boot_params; some page tables map
    # what is needed.
    .org image_head + 0x200
    .code64
linux_entry_64:
    cli
    cld
    lea rdi, [rip + bss_start]
    mov ecx, offset bss_words
    xor eax, eax
    rep stosd
    lea rsp, [rip + boot_stack_top]
    lea rdi, [rip + {linux_start_64}]
    jmp relocated

    # UEFI: a function of Microsoft's calling convention, on the firmware's stack.
    # Its loader zeroes what is to be zero.
    .global efi_entry
efi_entry:
    push rsi
    push rdi
    push rcx
    push rdx
    call relocate
    pop rdx
    pop rcx
    pop rdi
    pop rsi
    jmp {efi_start}

    # Where 32-bit mode is left for: EBP the image's base, ESI the loader's record.
linux_long_mode:
    lea rdi, [rip + {linux_start_32}]
    jmp relocated
pvh_long_mode:
    lea rdi, [rip + {pvh_start}]
    jmp relocated
multiboot2_long_mode:
    lea rdi, [rip + {multiboot2_start}]
relocated:
    push rsi
    push rdi
    call relocate
    pop rdi
    pop rsi
    # Falls through.

    # Our descriptor table, segments and stack; then the function in RDI, with RSI
    # as its argument, for good.
    .global settle
settle:
    lea rsp, [rip + boot_stack_top]
    lgdt [rip + boot_gdt_pointer]
    push 8
    lea rax, [rip + 1f]
    push rax
    retfq
1:  mov ax, 16
    mov ds, ax
    mov es, ax
    mov ss, ax
    xor eax, eax
    mov fs, ax
    mov gs, ax
    # Hermit expects the base of GS, by which it finds its per-CPU data, at zero.
    xor edx, edx
    mov ecx, 0xc0000101         # IA32_GS_BASE
    wrmsr
    xor ebp, ebp
    mov rax, rdi
    mov rdi, rsi
    call rax
    ud2

    # Adds the distance between where the image is and where it was linked to every
    # word that holds an address. The list is packed (gABI, SHT_RELR): an even
    # entry is the place of such a word, an odd one has a bit for each of the 63
    # words after the last place. To be called once.
relocate:
    lea rdx, [rip + image_head]
    sub rdx, offset link_base
    lea rsi, [rip + relr_start]
    lea rdi, [rip + relr_end]
2:  cmp rsi, rdi
    jae 6f
    lodsq
    test al, 1
    jnz 3f
    add [rax + rdx], rdx
    lea rcx, [rax + rdx + 8]
    jmp 2b
3:  mov r8, rcx
4:  shr rax, 1
    jz 5f
    test al, 1
    jz 7f
    add [r8], rdx
7:  add r8, 8
    jmp 4b
5:  add rcx, 63 * 8
    jmp 2b
6:  ret
    "#,
    linux_start_32 = sym super::linux::start_32,
    linux_start_64 = sym super::linux::start_64,
    pvh_start = sym super::pvh::start,
    multiboot2_start = sym super::multiboot2::start,
    efi_start = sym super::efi::start,
);

// EBP holds the image's base, EDI the 64-bit code to go on with, ESI a value for
// it. The steps are those of Intel SDM volume 3, 10.8.5.
global_asm!(
    r#"
    .section .head, "ax", @progbits
    .code32
enter_long_mode:
    cli
    cld
    mov edx, edi
    lea edi, [ebp + bss_start_offset]
    mov ecx, offset bss_words
    xor eax, eax
    rep stosd
    mov edi, edx
    lea esp, [ebp + boot_stack_top_offset]

    # Four page directories of 512 pages of 2 MiB: present, writable, large.
    lea ebx, [ebp + boot_directories_offset]
    mov eax, 0x83
    mov ecx, 2048
2:  mov [ebx], eax
    add ebx, 8
    add eax, 0x200000
    loop 2b

    # The table above them, then the one above that.
    lea eax, [ebp + boot_directories_offset + 3]
    lea ebx, [ebp + boot_pointers_offset]
    mov ecx, 4
3:  mov [ebx], eax
    add ebx, 8
    add eax, 0x1000
    loop 3b
    lea eax, [ebp + boot_pointers_offset + 3]
    mov [ebp + boot_root_offset], eax

    mov eax, 1 << 5             # CR4.PAE, and nothing else
    mov cr4, eax
    lea eax, [ebp + boot_root_offset]
    mov cr3, eax
    mov ecx, 0xc0000080         # IA32_EFER
    rdmsr
    or eax, 1 << 8              # EFER.LME
    wrmsr
    mov eax, cr0
    or eax, 1 << 31 | 1         # CR0.PG, CR0.PE
    mov cr0, eax

    # The descriptor table's address as it is before relocation.
    lea eax, [ebp + boot_gdt_offset]
    sub esp, 8
    mov word ptr [esp], 23
    mov [esp + 2], eax
    lgdt [esp]
    lea eax, [ebp + in_long_mode_offset]
    push 8
    push eax
    retf

    .code64
in_long_mode:
    mov edi, edi
    mov esi, esi
    lea rsp, [rip + boot_stack_top]
    jmp rdi

    # fn set_root_of_four_levels(root: u64), from 64-bit mode with five levels of
    # page tables. Their number can only be changed without paging, that is in
    # 32-bit mode (Intel SDM volume 3, 4.1.2). Code, stack and root lie below 4 GiB.
    .global set_root_of_four_levels
set_root_of_four_levels:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    lea rsi, [rip + 2f]
    lea rax, [rip + 1f]
    push 24
    push rax
    retfq
    .code32
1:  mov ax, 16
    mov ss, ax
    mov ds, ax
    mov eax, cr0
    and eax, 0x7fffffff         # CR0.PG
    mov cr0, eax
    mov eax, 1 << 5             # CR4.PAE, without CR4.LA57
    mov cr4, eax
    mov cr3, edi
    mov eax, cr0
    or eax, 0x80000000
    mov cr0, eax
    push 8
    push esi
    retf
    .code64
2:  mov esp, esp
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret

    .section .data.boot, "aw", @progbits
    .balign 8
    .global boot_gdt
boot_gdt:
    .quad 0
    .quad 0x00209a0000000000    # 64-bit code
    .quad 0x00cf92000000ffff    # data
    .quad 0x00cf9a000000ffff    # 32-bit code
    .word 0, 0, 0
boot_gdt_pointer:
    .word 31
    .quad boot_gdt

    .section .bss.boot, "aw", @nobits
    .balign 4096
    .global boot_root, boot_pointers, boot_directories, boot_stack_top
boot_root:
    .skip 4096
boot_pointers:
    .skip 2 * 4096
boot_directories:
    .skip 6 * 4096
    .skip 64 * 1024
boot_stack_top:
    "#
);
