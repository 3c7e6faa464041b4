package fakegpu

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// harmless are the devices of a node that any container has anyway.
var harmless = []string{"/dev/null", "/dev/zero", "/dev/full"}

// nodePath matches the names that NVIDIA's driver has for device nodes, and no path
// that leads elsewhere.
var nodePath = regexp.MustCompile(`^/dev/nvidia[a-z0-9-]*(/[a-z0-9-]+)?$`)

// uuidForm matches what a CDI device may be called and an environment variable hold.
var uuidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// CheckDevices reports what is wrong with a list of the node's devices that containers
// may be given in place of fake GPUs, beside /dev/null, /dev/zero and /dev/full: paths
// below /dev, of which the last part may be a pattern of path.Match.
func CheckDevices(list []string) error {
	for _, p := range list {
		_, err := path.Match(p, "")
		if dir := path.Dir(p); err != nil || !strings.HasPrefix(p, "/dev/") || path.Clean(p) != p || strings.ContainsAny(dir, `*?[\`) {
			return fmt.Errorf("%q is not a device below /dev; write one such as /dev/nvidia0 or /dev/nvidia*", p)
		}
	}
	return nil
}

// checkNodes reports what is wrong with the device nodes. allowed are as in CheckDevices.
func (f File) checkNodes(allowed []string) error {
	for i, n := range f.DeviceNodes {
		field := fmt.Sprintf("deviceNodes[%d]", i)
		if !nodePath.MatchString(n.Path) {
			return bad(field+".path", strconv.Quote(n.Path)+" is not a device node of NVIDIA's driver", "write one such as /dev/nvidia0 or /dev/nvidia-caps/nvidia-cap1")
		}
		host := n.HostPath
		if host == "" {
			host = n.Path
		}
		if !slices.Contains(harmless, host) && !matchesAny(allowed, host) {
			at := field + ".hostPath"
			if n.HostPath == "" {
				at = field + ".path"
			}
			return bad(at, strconv.Quote(host)+" is a device of the node that containers must not get",
				"write hostPath: /dev/null (or /dev/zero, /dev/full), or start the agent with --fake-devices "+strconv.Quote(host))
		}
	}
	return nil
}

func matchesAny(patterns []string, host string) bool {
	return path.Clean(host) == host && slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, host)
		return ok && err == nil
	})
}
