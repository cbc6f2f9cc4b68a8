//! From 32-bit protected mode, as several boot protocols leave it, to 64-bit mode
//! with the first 4 GiB mapped one to one.

use core::arch::global_asm;

// Expects: protected mode with flat segments, paging off, interrupts off. EDI
// holds the 64-bit function to call and ESI its argument; neither returns here.
// The steps are those of Intel SDM volume 3, 10.8.5.
global_asm!(
    r#"
    .section .boot, "ax"
    .code32
    .global enter_long_mode
enter_long_mode:
    cli
    cld
    mov esp, offset boot_stack_top

    # Four page directories of 512 pages of 2 MiB: present, writable, large.
    mov eax, 0x83
    xor edx, edx
    mov ebx, offset boot_directories
    mov ecx, 2048
2:  mov [ebx], eax
    mov [ebx + 4], edx
    add ebx, 8
    add eax, 0x200000
    adc edx, 0
    loop 2b

    # The table above them, then the one above that.
    mov eax, offset boot_directories + 3
    mov ebx, offset boot_pointers
    mov ecx, 4
3:  mov [ebx], eax
    add ebx, 8
    add eax, 0x1000
    loop 3b
    mov eax, offset boot_pointers + 3
    mov [boot_root], eax

    mov eax, cr4
    or eax, 1 << 5              # CR4.PAE
    mov cr4, eax
    mov eax, offset boot_root
    mov cr3, eax
    mov ecx, 0xc0000080         # IA32_EFER
    rdmsr
    or eax, 1 << 8              # EFER.LME
    wrmsr
    mov eax, cr0
    or eax, 1 << 31 | 1         # CR0.PG, CR0.PE
    mov cr0, eax

    lgdt [boot_gdt_pointer]
    push 8
    mov eax, offset in_long_mode
    push eax
    retf

    .code64
in_long_mode:
    mov ax, 16
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
    mov rsp, offset boot_stack_top
    xor ebp, ebp
    mov eax, edi
    mov edi, esi
    call rax
    ud2

    .section .rodata.boot, "a"
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00209a0000000000    # 64-bit code
    .quad 0x0000920000000000    # data
boot_gdt_pointer:
    .short 23
    .long boot_gdt

    .section .bss.boot, "aw", @nobits
    .balign 4096
boot_root:
    .skip 4096
boot_pointers:
    .skip 4096
boot_directories:
    .skip 4 * 4096
    .skip 64 * 1024
boot_stack_top:
    "#
);
