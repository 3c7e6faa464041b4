package controlplane

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/klog/v2"

	"berth.dev/berth/internal/visible"
)

// maxLog is the size at which a log file is set aside: one older file is kept.
const maxLog = 32 << 20

// logFile is an append-only log that never holds more than two times maxLog.
type logFile struct {
	path string
	mu   sync.Mutex
	f    *os.File
	size int64
}

// openLog opens the log of the whole process and sends Kubernetes' own log
// messages to it. Nothing of them reaches the terminal.
func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Parse([]string{"--logtostderr=false", "--stderrthreshold=FATAL", "--alsologtostderr=false"}); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	klog.SetOutput(io.Discard)                             // each severity is also written to those below it
	klog.SetOutputBySeverity("INFO", visible.NewWriter(l)) // logs are read on terminals
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open log: %w", err), f.Close())
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends p. When the log has grown too large it first becomes PATH.1.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLog {
		// Where it cannot be set aside it grows on: better than to lose what is said.
		_ = errors.Join(l.f.Close(), os.Rename(l.path, l.path+".1"))
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// Close closes the file; Kubernetes may still log while it ends, to nowhere.
func (l *logFile) Close() error {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
