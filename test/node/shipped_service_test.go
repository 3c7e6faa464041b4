//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// proxyAPI does on the node what kube-proxy does for one Service: pods reach the API
// server at the address of "kubernetes", which the kubelet tells them.
func (j joined) proxyAPI(t *testing.T) {
	t.Helper()
	service, err := j.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := addAddress("lo:2", service.Spec.ClusterIP); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].Port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // closed
			}
			go forward(from, "127.0.0.1:6443")
		}
	}()
}

// forward connects both ends until one of them ends.
func forward(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return // as if nobody listened
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = from.Close(), to.Close()
		})
	}
	both.Wait()
}

// addAddress gives an interface an address.
func addAddress(name, ip string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	ifreq, err := unix.NewIfreq(name)
	if err == nil {
		err = ifreq.SetInet4Addr(net.ParseIP(ip).To4())
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCSIFADDR, ifreq)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("give %s the address %s", name, ip), err)
	}
	return nil
}
