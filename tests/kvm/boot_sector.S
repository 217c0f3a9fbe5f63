# A guest of 512 bytes (as --32; ld -m elf_i386 -Ttext 0x7c00 --oformat binary -e _start): says who it is on the serial
# port, counts seconds, lets go of devices, and obeys the power button. For machine type pc.
.code16
.globl _start
_start:
    ljmp $0, $1f
1:  xor %ax, %ax
    mov %ax, %ds
    mov %ax, %ss
    mov $0x7c00, %sp
    cld
    mov $hello, %si
    call puts
    mov $0x510, %dx         # fw_cfg: item 2 is the machine's UUID
    mov $2, %ax
    out %ax, %dx
    mov $16, %cx
2:  mov $0x511, %dx
    in %dx, %al
    call puthex
    loop 2b
    mov $up, %si
    call puts
    mov $0x602, %dx         # PM1 enable: the power button
    mov $0x100, %ax
    out %ax, %dx
    sti
    xor %ebx, %ebx          # seconds counted
    mov 0x46c, %ax
    mov %ax, last
3:  hlt
    mov $0x600, %dx         # PM1 status: pressed?
    in %dx, %ax
    test $1, %ah
    jnz off
    mov $0xae04, %dx        # slots that are to go: let them go
    in %dx, %eax
    test %eax, %eax
    jz 4f
    mov $0xae08, %dx
    out %eax, %dx
4:  mov 0x46c, %ax          # BIOS ticks, 18.2 a second
    sub last, %ax
    cmp $18, %ax
    jb 3b
    addw $18, last
    inc %bx
    mov %bh, %al
    call puthex
    mov %bl, %al
    call puthex
    mov $eol, %si
    call puts
    jmp 3b
off:
    mov $bye, %si
    call puts
    mov $0x604, %dx         # PM1 control: S5
    mov $0x2000, %ax
    out %ax, %dx
7:  hlt
    jmp 7b
putc:                       # character in al
    push %dx
    push %ax
    mov $0x3fd, %dx
5:  in %dx, %al
    test $0x20, %al
    jz 5b
    pop %ax
    mov $0x3f8, %dx
    out %al, %dx
    pop %dx
    ret
puts:
    lodsb
    test %al, %al
    jz 6f
    call putc
    jmp puts
6:  ret
puthex:                     # byte in al
    push %ax
    shr $4, %al
    call digit
    pop %ax
    and $15, %al
digit:
    cmp $10, %al
    sbb $0x69, %al
    das
    or $0x20, %al
    jmp putc
last:  .word 0
hello: .asciz "\r\nguest "
up:    .asciz " is up\r\n"
bye:   .asciz "switched off\r\n"
eol:   .asciz "\r\n"
.org 510
.word 0xaa55
