package user

import "slices"

// Names of the API server's users that create objects for other objects: Kubernetes'
// controllers with a service account each, as kubeadm and clouds run them, and without.
const (
	deploymentController = "system:serviceaccount:kube-system:deployment-controller"
	controllerManager    = "system:kube-controller-manager"
)

// controllers are those of Kubernetes that create pods, or what creates pods, and Berth's own as
// deploy/controller.yaml installs it.
//
// Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go.
var controllers = []string{
	"system:serviceaccount:kube-system:job-controller",
	"system:serviceaccount:kube-system:replicaset-controller",
	"system:serviceaccount:kube-system:replication-controller",
	"system:serviceaccount:kube-system:statefulset-controller",
	"system:serviceaccount:kube-system:daemon-set-controller",
	"system:serviceaccount:kube-system:cronjob-controller",
	deploymentController,
	controllerManager,
	"system:serviceaccount:kube-system:berth-controller",
}

// NewPolicy returns the policy with Kubernetes' and Berth's controllers, in which speakers may
// name another user, and more controllers create objects for the object that these name.
func NewPolicy(speakers, more []string) *Policy {
	return &Policy{
		Speakers:    slices.Clone(speakers),
		Controllers: append(slices.Clone(controllers), more...),
		Carriers:    []string{deploymentController, controllerManager},
	}
}
