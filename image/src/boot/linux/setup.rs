//! The 16-bit part of the Linux boot protocol: what a BIOS loader starts. It asks
//! the BIOS for what later code cannot ask any more, in `boot_params`, and goes on
//! at the 32-bit entry.

use core::arch::global_asm;

// The image builder puts this behind the setup header, at offset 0x280 of the
// setup segment that the loader makes: CS is 32 paragraphs into it, DS at its
// start, SS:SP a stack in it. `boot_params` is made at offset 0x2000, below the
// 32 KiB that the protocol has always given to this code. The loader has put the
// rest of the image above 1 MiB, so gate A20 is open.
global_asm!(
    r#"
    .section .setup, "", @progbits
    .code16
    # As seen by DS.
    .set code, 0x280
    .set params, 0x2000
    .set gdt_at, code + gdt - setup
    .set gdt_pointer_at, code + gdt_pointer - setup
    .set gdt_pointer_base, gdt_pointer_at + 2
    .set protected_at, code + protected - setup
    .set no_64_bit_mode_at, code + no_64_bit_mode - setup
    .set far_pointer_at, code + far_pointer - setup
setup:
    cld
    mov ax, ds
    mov es, ax

    # A CPU without 64-bit mode (Intel SDM volume 2, CPUID) would just start again.
    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb 6f
    mov eax, 0x80000001
    cpuid
    test edx, 1 << 29
    jnz 8f
6:  mov si, offset no_64_bit_mode_at
7:  lodsb
    mov dx, 0x3f8               # COM1, as firmware has left it
    out dx, al
    mov ah, 0x0e                # and the screen
    mov bx, 7
    int 0x10
    cmp al, 10
    jne 7b
9:  hlt
    jmp 9b

8:
    # boot_params: all zero but for the header, which the loader has filled in.
    mov di, params
    xor ax, ax
    mov cx, 2048
    rep stosw
    mov si, 0x1f1
    mov di, params + 0x1f1
    mov cx, 0x280 - 0x1f1
    rep movsb

    # The memory map (ACPI 6.5, 15.1). DI: the place for the next entry.
    mov di, params + 0x2d0
    xor ebx, ebx
1:  mov eax, 0xe820
    mov ecx, 20
    mov edx, 0x534d4150         # "SMAP"
    stc
    int 0x15
    jc 2f
    cmp eax, 0x534d4150
    jne 2f
    cmp cx, 20
    jb 3f
    add di, 20
    inc byte ptr [params + 0x1e8]
3:  cmp byte ptr [params + 0x1e8], 128
    jae 2f
    test ebx, ebx
    jnz 1b

    # The screen: 80 columns of text, by asking for them where it shows something else.
    # Without a video BIOS nothing answers, and no screen is described.
2:  mov ax, 0x0f00
    int 0x10
    and al, 0x7f
    cmp al, 3
    je 4f
    mov ax, 3
    int 0x10
    mov ax, 0x0f00
    int 0x10
    and al, 0x7f
    cmp al, 3
    jne 5f
4:  mov [params + 0x06], al
    mov [params + 0x07], ah
    mov byte ptr [params + 0x0e], 25
    mov byte ptr [params + 0x0f], 1

5:
    # Protected mode with flat segments, as the 32-bit protocol has them.
    cli
    xor ebx, ebx
    mov bx, ds
    shl ebx, 4
    lea eax, [ebx + gdt_at]
    mov [gdt_pointer_base], eax
    lea eax, [ebx + protected_at]
    mov [far_pointer_at], eax
    lgdt [gdt_pointer_at]
    lea esi, [ebx + params]
    mov ebp, [0x214]            # code32_start
    mov eax, cr0
    or al, 1
    mov cr0, eax
    jmp fword ptr [far_pointer_at]

    .code32
protected:
    mov ax, 0x18
    mov ds, ax
    mov es, ax
    mov fs, ax
    mov gs, ax
    mov ss, ax
    xor ebx, ebx
    xor edi, edi
    mov eax, ebp
    xor ebp, ebp
    jmp eax

    .balign 8
gdt:
    .quad 0
    .quad 0
    .quad 0x00cf9a000000ffff    # 0x10: code
    .quad 0x00cf92000000ffff    # 0x18: data
gdt_pointer:
    .word 31
    .long 0
far_pointer:
    .long 0
    .word 0x10
no_64_bit_mode:
    .ascii "uniperf: stopped: this CPU has no 64-bit mode\r\n"
    .code64
    "#
);
