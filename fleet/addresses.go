package fleet

import (
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// The simulated network. Node number i, from 0, has address 10.64.0.1 + i and
// the pod range 10.65.0.0/24 + i, so an address alone says whose it is.
// The ranges end before 10.96.0.0, where Services begin.
const (
	maxNodes   = 31 * 256
	podsPerIPs = 254 // pod addresses of one node, .1 to .254
)

// podRef names a pod by its place and identity.
type podRef struct {
	node, namespace, name string
	uid                   types.UID
}

// addresses gives nodes and pods their IPs. It is safe for concurrent use.
type addresses struct {
	mu     sync.Mutex
	names  map[int]string    // node by number
	number map[string]int    // number by node
	pods   map[string]podRef // pod by IP
	cursor map[int]int       // by node number: where the search for a free pod IP starts
	next   int               // lowest number that may be free
}

func newAddresses() *addresses {
	return &addresses{names: map[int]string{}, number: map[string]int{}, pods: map[string]podRef{}, cursor: map[int]int{}}
}

// node assigns the lowest free address to a node that has none, and returns it.
func (a *addresses) node(name string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.number[name]
	if !ok {
		for i = a.next; a.names[i] != ""; i++ {
		}
		if i >= maxNodes {
			return "", fmt.Errorf("no address left for node %s: a fleet has at most %d nodes", name, maxNodes)
		}
		a.names[i], a.number[name], a.next = name, i, i+1
	}
	return nodeIP(i), nil
}

// keep gives a node the address that it had. It reports whether ip is an
// address of ours and not another node's.
func (a *addresses) keep(name, ip string) bool {
	i, ok := nodeNumber(ip)
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if holder := a.names[i]; holder != "" && holder != name {
		return false
	}
	a.names[i], a.number[name] = name, i
	return true
}

// forget frees the address of a node that is gone. Its pods keep theirs until
// they are released.
func (a *addresses) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i, ok := a.number[name]; ok {
		delete(a.number, name)
		delete(a.names, i)
		a.next = min(a.next, i)
	}
}

// pod gives a pod a free address of its node, the one longest unused. It is ""
// when all are taken.
func (a *addresses) pod(ref podRef) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.number[ref.node]
	if !ok {
		return ""
	}
	for range podsPerIPs {
		host := a.cursor[i]%podsPerIPs + 1
		a.cursor[i] = host
		ip := fmt.Sprintf("10.%d.%d.%d", 65+i>>8, i&255, host)
		if _, taken := a.pods[ip]; !taken {
			a.pods[ip] = ref
			return ip
		}
	}
	return ""
}

// keepPod gives a pod the address that it had. It reports whether it could.
func (a *addresses) keepPod(ref podRef, ip string) bool {
	i, ok := podNumber(ip)
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if holder, taken := a.pods[ip]; taken && holder.uid != ref.uid || a.names[i] != ref.node {
		return false
	}
	a.pods[ip] = ref
	return true
}

// release frees ip if that pod still holds it.
func (a *addresses) release(ip string, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods[ip].uid == uid {
		delete(a.pods, ip)
	}
}

func (a *addresses) podByIP(ip string) (podRef, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ref, ok := a.pods[ip]
	return ref, ok
}

func (a *addresses) nodeByIP(ip string) (string, bool) {
	i, ok := nodeNumber(ip)
	if !ok {
		return "", false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := a.names[i]
	return name, name != ""
}

// ours reports whether ip is a node's, or in the pod range of one.
func (a *addresses) ours(ip string) bool {
	i, ok := nodeNumber(ip)
	if !ok {
		if i, ok = podNumber(ip); !ok {
			return false
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[i] != ""
}

func nodeIP(i int) string  { return fmt.Sprintf("10.64.%d.%d", (i+1)>>8, (i+1)&255) }
func podCIDR(i int) string { return fmt.Sprintf("10.%d.%d.0/24", 65+i>>8, i&255) }

// cidr returns the pod range of a node that has an address.
func (a *addresses) cidr(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return podCIDR(a.number[name])
}

// nodeNumber is the inverse of nodeIP.
func nodeNumber(ip string) (int, bool) {
	b, ok := bytes4(ip)
	i := int(b[2])<<8 + int(b[3]) - 1
	return i, ok && b[0] == 10 && b[1] == 64 && i >= 0 && i < maxNodes
}

// podNumber returns the number of the node whose pod range holds ip.
func podNumber(ip string) (int, bool) {
	b, ok := bytes4(ip)
	i := (int(b[1])-65)<<8 + int(b[2])
	return i, ok && b[0] == 10 && b[1] >= 65 && i < maxNodes && b[3] != 0
}

func bytes4(ip string) ([4]byte, bool) {
	a, err := netip.ParseAddr(ip)
	if err != nil || !a.Is4() {
		return [4]byte{}, false
	}
	return a.As4(), true
}
