// SPDX-License-Identifier: GPL-2.0 OR MIT

// Echo sends each record back, or sends records and prints the echoes: MPA with Go's
// standard library alone. "go run echo.go server 4242", "go run echo.go client
// localhost:4242 hello".
//
// Go's sockets are non-blocking: MPA_START fails with EINPROGRESS, and SO_ERROR has the
// result once the socket is writable. Then each Write is a record, and each Read with a
// buffer that is large enough returns a record or io.EOF.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

const (
	tcpULP     = 31
	solMPA     = 289
	mpaStart   = 1
	initiator  = 1
	responder  = 2
	recordMost = 64768
)

// struct mpa_start of linux/mpa.h, up to the private data
type start struct {
	role       uint8
	revision   uint8
	privateLen uint16
	flags      uint32
	ird, ord   uint16
	timeoutMs  uint32
	reserved   [4]uint32
}

func attach(fd uintptr) error {
	return os.NewSyscallError("TCP_ULP: is mpa loaded?",
		syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, tcpULP, "mpa"))
}

func startAs(fd uintptr, role, revision uint8) error {
	how := start{role: role, revision: revision}
	return syscall.SetsockoptString(int(fd), solMPA, mpaStart,
		string((*[unsafe.Sizeof(how)]byte)(unsafe.Pointer(&how))[:]))
}

func connect(to string) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	begun := false
	wait := raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			if err = attach(fd); err == nil {
				err = startAs(fd, initiator, 1)
			}
			// Wait until the socket is writable.
			return !errors.Is(err, syscall.EINPROGRESS)
		}
		var ended int
		ended, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		if err == nil && ended != 0 {
			err = syscall.Errno(ended)
		}
		return true
	})
	if err == nil {
		err = wait
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("MPA: %w", err)
	}
	return conn.(*net.TCPConn), nil
}

// Accepted sockets have MPA attached.
func listen(port string) (net.Listener, error) {
	config := net.ListenConfig{
		// Attach before listen(): accepted sockets inherit the ULP, and are
		// started after accept().
		Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			if control := raw.Control(func(fd uintptr) { err = attach(fd) }); control != nil {
				return control
			}
			return err
		},
	}
	return config.Listen(context.Background(), "tcp", ":"+port)
}

func serve(conn net.Conn) {
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		control := raw.Control(func(fd uintptr) { err = startAs(fd, responder, 2) })
		if control != nil {
			err = control
		}
	}
	if err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		fmt.Fprintln(os.Stderr, "echo:", err)
		return
	}
	record := make([]byte, recordMost)
	for {
		// The first read also waits for the end of startup.
		n, err := conn.Read(record)
		if err == nil {
			_, err = conn.Write(record[:n])
		}
		if err != nil {
			if err != io.EOF {
				fmt.Fprintln(os.Stderr, "echo:", err)
			}
			return
		}
	}
}

func server(port string) error {
	listener, err := listen(port)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go serve(conn)
	}
}

func client(to string, words []string) error {
	conn, err := connect(to)
	if err != nil {
		return err
	}
	defer conn.Close()
	record := make([]byte, recordMost)
	for _, word := range words {
		if _, err = conn.Write([]byte(word)); err != nil {
			return err
		}
		n, err := conn.Read(record)
		if err != nil {
			return err
		}
		fmt.Println(string(record[:n]))
	}
	return nil
}

func main() {
	err := errors.New("usage: echo server PORT | echo client HOST:PORT RECORD...")
	if len(os.Args) == 3 && os.Args[1] == "server" {
		err = server(os.Args[2])
	} else if len(os.Args) > 3 && os.Args[1] == "client" {
		err = client(os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}
