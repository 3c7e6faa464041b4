package datadir_test

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/internal/datadir"
)

// other opens the lock file as another process does, and locks it.
func other(t *testing.T, dir datadir.Dir, how int) *os.File {
	t.Helper()
	f, err := os.OpenFile(dir.Join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // a test may have closed it
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return f
}

// One that only looks who holds a folder, and is held up in the meantime, does not keep
// others from taking it.
func TestAReaderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := datadir.Dir(t.TempDir())
		reader := other(t, dir, syscall.LOCK_SH)
		const many = 3
		released := make(chan error, many)
		for range many { // one after the other
			go func() {
				release, err := dir.Lock()
				if err == nil {
					time.Sleep(time.Second)
					release()
				}
				released <- err
			}()
		}
		time.Sleep(3 * time.Second)
		select {
		case err := <-released:
			t.Fatalf("Lock() = %v while another process looks", err)
		default:
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for range many {
			var held *datadir.HeldError
			if err := <-released; errors.As(err, &held) {
				refused++
				if held.PID != os.Getpid() {
					t.Errorf("it is refused for process %d, want %d, which has just taken it", held.PID, os.Getpid())
				}
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != many-1 {
			t.Errorf("of %d that wanted the folder %d are refused, want all but one", many, refused)
		}
	})
}

func TestAReaderThatNeverEndsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := datadir.Dir(t.TempDir())
		other(t, dir, syscall.LOCK_SH)
		var held *datadir.HeldError
		if _, err := dir.Lock(); !errors.As(err, &held) {
			t.Errorf("Lock() = %v; want a HeldError", err)
		}
	})
}

// Between taking the folder and leaving its number a process may be held up.
func TestTheNumberOfTheHolderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := datadir.Dir(t.TempDir())
		holder := other(t, dir, syscall.LOCK_EX)
		pids := make(chan int)
		go func() {
			pid, held, err := dir.Holder()
			if !held || err != nil {
				t.Errorf("Holder() = %d, %v, %v; want held", pid, held, err)
			}
			pids <- pid
		}()
		go func() {
			held := &datadir.HeldError{}
			if _, err := dir.Lock(); !errors.As(err, &held) {
				t.Errorf("Lock() = %v; want a HeldError", err)
			}
			pids <- held.PID
		}()
		time.Sleep(3 * time.Second)
		if _, err := holder.WriteString(strconv.Itoa(4711) + "\n"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if pid := <-pids; pid != 4711 {
				t.Errorf("the holder is %d, want 4711", pid)
			}
		}
	})
}

func TestANumberIsNotLeftBehind(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	release, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	release()
	if text, err := os.ReadFile(dir.Join("lock")); err != nil || len(text) > 0 {
		t.Errorf("the lock file says %q, %v; want nothing", text, err)
	}
}
