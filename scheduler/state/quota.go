package state

import fwk "k8s.io/kube-scheduler/framework"

// QuotaKey is where it is kept that the queue of the pod of a scheduling cycle has not
// enough quota left.
const QuotaKey fwk.StateKey = DevicesName + "/quota"

// NoQuota is that a queue has not enough quota left for the pod of a scheduling cycle.
type NoQuota struct {
	Text  string
	Final bool // no eviction of others would help
}

// Clone implements fwk.StateData.
func (n *NoQuota) Clone() fwk.StateData { return n }

// QuotaOf returns why the quotas refuse the pod of a scheduling cycle; nil is that they do
// not.
func QuotaOf(cycle fwk.CycleState) *NoQuota {
	data, err := cycle.Read(QuotaKey)
	if err != nil {
		return nil
	}
	no, _ := data.(*NoQuota)
	return no
}

// QuotaRefused reports whether the quotas refuse the pod of a scheduling cycle.
func QuotaRefused(cycle fwk.CycleState) bool { return QuotaOf(cycle) != nil }
