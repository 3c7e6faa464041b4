package exporter

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Owner is whose process it is, as far as its cgroup tells.
type Owner struct {
	PodUID      string // "" is no pod's
	ContainerID string // 64 hex digits; "" is unknown
}

// ProcessOwner reads whose process pid is from proc, the host's /proc. It reports
// false for one that is not there: it has ended, or the agent does not see the
// host's processes for want of hostPID.
func ProcessOwner(proc string, pid int) (Owner, bool) {
	data, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return Owner{}, false
	}
	o, _ := ParseCgroup(string(data))
	return o, true
}

// ParseCgroup reads whose process has this /proc/PID/cgroup. It knows cgroup v1
// and v2 and the names that kubelets give with systemd (...-pod<uid>.slice/
// cri-containerd-<id>.scope, underscores in the UID) and without (pod<uid>/<id>),
// under whatever path, also seen from within a cgroup namespace. UIDs are those of
// the API or, of static pods, the 32 digits that the kubelet makes.
func ParseCgroup(text string) (Owner, bool) {
	for line := range strings.Lines(text) {
		// hierarchy-ID:controllers:path; the path may have colons.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		rest := parts[2]
		for {
			at := strings.Index(rest, "pod")
			if at < 0 {
				break
			}
			before := at == 0 || rest[at-1] == '/' || rest[at-1] == '-'
			rest = rest[at+len("pod"):]
			if uid, after, ok := cutUID(rest); ok && before {
				return Owner{PodUID: uid, ContainerID: containerID(after)}, true
			}
		}
	}
	return Owner{}, false
}

// cutUID takes a pod's UID from the beginning of a path.
func cutUID(path string) (uid, rest string, ok bool) {
	end := 0
	for end < len(path) && (hex(path[end]) || path[end] == '-' || path[end] == '_') {
		end++
	}
	uid = strings.ReplaceAll(path[:end], "_", "-")
	switch {
	case len(uid) == 36 && strings.Count(uid, "-") == 4, len(uid) == 32 && !strings.Contains(uid, "-"):
		return uid, path[end:], true
	}
	return "", "", false
}

// containerID finds the first run of exactly 64 hex digits.
func containerID(path string) string {
	from := 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && hex(path[i]) {
			continue
		}
		if i-from == 64 {
			return path[from:i]
		}
		from = i + 1
	}
	return ""
}

func hex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
