package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// pollEvery is how often a followed log asks the Runtime for news when it
// knows of no line to come.
const pollEvery = 500 * time.Millisecond

// logOptions are the query parameters of GET /containerLogs, in the words of
// PodLogOptions.
type logOptions struct {
	follow, previous, timestamps bool
	tail                         int64 // -1 is all
	limit                        int64 // bytes; -1 is no limit
	since                        time.Time
}

// parseLogOptions reads the parameters. The status is that of the answer when
// err is not nil: 400 for what cannot be read, 422 for what is not allowed.
func parseLogOptions(q url.Values, now time.Time) (o logOptions, status int, err error) {
	o.tail, o.limit = -1, -1
	for _, f := range []struct {
		name string
		into *bool
	}{{"follow", &o.follow}, {"previous", &o.previous}, {"timestamps", &o.timestamps}} {
		if v := q.Get(f.name); v != "" {
			if *f.into, err = strconv.ParseBool(v); err != nil {
				return o, http.StatusBadRequest, fmt.Errorf("parameter %s: %q is not true or false", f.name, v)
			}
		}
	}
	seconds := int64(-1)
	for _, f := range []struct {
		name  string
		into  *int64
		least int64
	}{{"tailLines", &o.tail, 0}, {"limitBytes", &o.limit, 1}, {"sinceSeconds", &seconds, 1}} {
		v := q.Get(f.name)
		if v == "" {
			continue
		}
		if *f.into, err = strconv.ParseInt(v, 10, 64); err != nil {
			return o, http.StatusBadRequest, fmt.Errorf("parameter %s: %q is not a whole number", f.name, v)
		}
		if *f.into < f.least {
			return o, http.StatusUnprocessableEntity, fmt.Errorf("parameter %s: %d is less than %d", f.name, *f.into, f.least)
		}
	}
	if seconds > 0 {
		o.since = now.Add(-time.Duration(min(seconds, 1<<33)) * time.Second)
	}
	if v := q.Get("sinceTime"); v != "" {
		if seconds > 0 {
			return o, http.StatusUnprocessableEntity, fmt.Errorf("parameters sinceTime and sinceSeconds: at most one may be given")
		}
		if o.since, err = time.Parse(time.RFC3339, v); err != nil {
			return o, http.StatusBadRequest, fmt.Errorf("parameter sinceTime: %q is not a time of RFC 3339", v)
		}
	}
	return o, 0, nil
}

// serveLogs is GET /containerLogs/{namespace}/{pod}/{container}.
func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request, node string) {
	o, status, err := parseLogOptions(r.URL.Query(), s.now())
	if err != nil {
		refuse(w, status, "%v", err)
		return
	}
	ns, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	c, podFound, found := s.find(node, ns, pod, name)
	switch {
	case !podFound:
		refuse(w, http.StatusNotFound, "pod %q does not exist", pod)
		return
	case !found:
		refuse(w, http.StatusNotFound, "container %q not found in pod %q", name, pod)
		return
	}
	lines, live, err := instance(c, o.previous)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	out := &logWriter{w: w, o: o, left: o.limit, flush: flusher(w)}
	out.flush()
	shown := printed(lines, s.now())
	start := out.first(shown)
	if out.print(shown[start:]) && o.follow && live {
		s.follow(r.Context(), c, out, cursorAt(shown))
	}
}

// instance picks the log that is asked for, as a kubelet does: a container
// that waits to be started again shows the instance that ended. live says that
// lines may still come.
func instance(c Container, previous bool) (lines []Line, live bool, err error) {
	waiting := c.State == StateWaiting
	switch {
	case previous && (c.RestartCount == 0 || c.Previous == nil):
		return nil, false, fmt.Errorf("previous terminated container %q in pod %q not found", c.Name, c.Pod)
	case previous, waiting && c.Previous != nil:
		return c.Previous, false, nil
	case !waiting:
		return c.Lines, c.State == StateRunning, nil
	}
	why := c.Reason
	switch why {
	case "":
		why = "ContainerCreating"
	case "ErrImagePull":
		why = "image can't be pulled"
	case "ImagePullBackOff":
		why = "trying and failing to pull image"
	}
	return nil, false, fmt.Errorf("container %q in pod %q is waiting to start: %s", c.Name, c.Pod, why)
}

// printed returns the lines that have been printed by now.
func printed(lines []Line, now time.Time) []Line {
	n := len(lines)
	for n > 0 && lines[n-1].At.After(now) {
		n--
	}
	return lines[:n]
}

// cursor is a place in a log that stays right when its oldest lines are
// dropped: the time of the last line shown, and how many of that time were.
type cursor struct {
	at   time.Time
	same int
}

func cursorAt(shown []Line) cursor {
	if len(shown) == 0 {
		return cursor{}
	}
	at := shown[len(shown)-1].At
	n := 0
	for n < len(shown) && shown[len(shown)-1-n].At.Equal(at) {
		n++
	}
	return cursor{at: at, same: n}
}

// after returns the lines that come after the cursor.
func (c cursor) after(lines []Line) []Line {
	i, same := 0, 0
	for ; i < len(lines); i++ {
		if lines[i].At.After(c.at) {
			break
		}
		if lines[i].At.Equal(c.at) {
			if same++; same > c.same {
				break
			}
		}
	}
	return lines[i:]
}

// follow prints lines as they come, until the instance has ended and all of
// its lines are out, the pod is gone, the limit is reached or ctx ends.
func (s *Server) follow(ctx context.Context, was Container, out *logWriter, at cursor) {
	for {
		c, _, found := s.find(was.Node, was.Namespace, was.Pod, was.Name)
		if !found || c.UID != was.UID {
			return
		}
		lines, ended := rest(c, was.RestartCount)
		now := s.now()
		news := at.after(lines)
		shown := printed(news, now)
		if !out.print(shown) {
			return
		}
		if len(shown) > 0 {
			at = cursorAt(lines[:len(lines)-len(news)+len(shown)])
		}
		if ended {
			return
		}
		wait := pollEvery
		if len(news) > len(shown) {
			wait = min(wait, news[len(shown)].At.Sub(now))
		}
		timer := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// rest returns the log of the instance after the given number of restarts, and
// whether that instance has ended.
func rest(c Container, restarts int) (lines []Line, ended bool) {
	switch {
	case c.RestartCount == restarts+1, c.RestartCount == restarts && c.State == StateWaiting && c.Previous != nil:
		return c.Previous, true
	case c.RestartCount != restarts:
		return nil, true // it and its log are gone
	}
	return c.Lines, c.State != StateRunning
}

// logWriter prints lines in the form that the options ask for.
type logWriter struct {
	w     io.Writer
	o     logOptions
	left  int64 // bytes; below 0 is no limit
	flush func()
}

// first returns the index of the first line that since and tail leave.
func (l *logWriter) first(lines []Line) int {
	i := 0
	for i < len(lines) && lines[i].At.Before(l.o.since) {
		i++
	}
	if l.o.tail >= 0 {
		i = max(i, len(lines)-int(min(l.o.tail, int64(len(lines)))))
	}
	return i
}

// print writes lines and reports whether more may follow.
func (l *logWriter) print(lines []Line) bool {
	for _, line := range lines {
		text := line.Text + "\n"
		if l.o.timestamps {
			text = line.At.UTC().Format("2006-01-02T15:04:05.000000000Z") + " " + text
		}
		if l.left >= 0 {
			text = text[:min(int64(len(text)), l.left)]
			l.left -= int64(len(text))
		}
		if _, err := io.WriteString(l.w, text); err != nil || l.left == 0 {
			l.flush()
			return false
		}
	}
	if len(lines) > 0 {
		l.flush()
	}
	return true
}

// flusher returns what sends on what w holds back.
func flusher(w io.Writer) func() {
	if f, ok := w.(http.Flusher); ok {
		return f.Flush
	}
	return func() {}
}
