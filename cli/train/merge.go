package train

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// longestLine is the most bytes of a line that are kept together; longer lines are divided.
const longestLine = 64 << 10

// stream is the log of a container, line by line.
type stream struct {
	rank int
	body io.ReadCloser
	in   *bufio.Reader
	at   time.Time // of line; of the line before, if it has none
	line string
}

// open asks for the log of a container.
func (j *jobs) open(ctx context.Context, s source, o v1.PodLogOptions) (*stream, error) {
	o.Container = s.container
	body, err := j.CoreV1().Pods(j.namespace).GetLogs(s.pod, &o).Stream(ctx)
	if err != nil {
		return nil, j.Failed("read the log of pod "+j.namespace+"/"+s.pod, err)
	}
	return &stream{rank: s.rank, body: body, in: bufio.NewReaderSize(body, longestLine)}, nil
}

// next reads the next line. It reports false at the end of the log.
func (s *stream) next(stamped bool) (bool, error) {
	raw, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	if len(raw) == 0 && err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	}
	s.line = strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if !stamped {
		return true, nil
	}
	stamp, rest, _ := strings.Cut(s.line, " ")
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		s.at, s.line = at, rest
	}
	return true, nil
}

// merge prints what logs hold now, in the order of their times; at equal times the lower rank comes first. The lines of
// one log keep their order.
func (j *jobs) merge(ctx context.Context, sources []source, printLine func(int, string) error, tail int64) error {
	var open []*stream
	defer func() {
		for _, s := range open {
			s.body.Close()
		}
	}()
	options := v1.PodLogOptions{Timestamps: true}
	if tail >= 0 {
		options.TailLines = &tail
	}
	for _, source := range sources {
		s, err := j.open(ctx, source, options)
		if err != nil {
			return err
		}
		open = append(open, s)
	}
	return mergeLines(open, printLine)
}

// mergeLines prints the lines of streams in the order of their times.
func mergeLines(open []*stream, printLine func(int, string) error) error {
	var live []*stream
	for _, s := range open {
		more, err := s.next(true)
		if err != nil {
			return err
		}
		if more {
			live = append(live, s)
		}
	}
	for len(live) > 0 {
		first := 0
		for i, s := range live {
			if s.at.Before(live[first].at) {
				first = i
			}
		}
		s := live[first]
		if err := printLine(s.rank, s.line); err != nil {
			return err
		}
		more, err := s.next(true)
		if err != nil {
			return err
		}
		if !more {
			live = append(live[:first], live[first+1:]...)
		}
	}
	return nil
}
