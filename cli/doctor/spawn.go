package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/profile"
	"berth.dev/berth/kube/spawn"
	"berth.dev/berth/kube/view"
)

// doctorSpawn is `berth doctor spawn`.
type doctorSpawn struct {
	notebook.Command
	choice notebook.ProfileChoice
	output term.Output
}

func newDoctorSpawn(o client.Options) *cobra.Command {
	d := &doctorSpawn{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "spawn USER",
		Short: "Check each step of starting a user's notebook, and report the first that fails",
		Long: "Predict whether USER could start a notebook from a profile now. Checks namespace, controller, profile,\n" +
			"permissions, volumes, quota, admission, image, nodes, and GPUs, and suggests fixes. Nothing is created (API\n" +
			"server dry run). If GPUs are in use, the notebook would wait. Exits with code 3 if a step fails.",
		Example: "  berth doctor spawn ada\n  berth doctor spawn ada --profile gpu --option image=pytorch --group staff -n hub",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0]) },
	}
	d.AddFlags(cmd)
	d.output.AddFlags(cmd, term.Rows{Kind: "FindingList", Row: finding.Finding{}})
	f := cmd.Flags()
	f.StringVar(&d.choice.Name, "profile", "", "the NotebookProfile (default: the user's default profile)")
	f.StringToStringVar(&d.choice.Options, "option", nil, "choice for an option of the profile, as OPTION=CHOICE")
	f.StringToStringVar(&d.choice.Unlisted, "unlisted", nil, "custom value for an option, as OPTION=VALUE")
	f.StringArrayVar(&d.choice.Groups, "group", nil, "group of the user (repeatable)")
	return cmd
}

func (d *doctorSpawn) run(ctx context.Context, user string) error {
	if err := checkFindings(&d.output); err != nil {
		return err
	}
	n, err := d.Connect()
	if err != nil {
		return err
	}
	d.choice.User = user
	facts, err := spawnFacts(ctx, n, &d.choice)
	if err != nil {
		return err
	}
	found := spawn.Judge(facts)
	return writeFindings(d.Options, &d.output, found, outcome(user, facts, found))
}

// outcome is the answer in a sentence.
func outcome(user string, f *spawn.Facts, found []finding.Finding) string {
	if first := spawn.First(found); first != "" {
		return "the first failed step is " + first
	}
	if last := found[len(found)-1]; last.Name == spawn.GPUs && last.Status != finding.OK {
		return fmt.Sprintf("a notebook for %s would be queued", user)
	}
	return fmt.Sprintf("notebook %s for %s would start now", f.Object.Name, user)
}

// spawnFacts reads what a start needs. Objects that the user cannot read are noted; an error is a
// cluster that does not answer.
func spawnFacts(ctx context.Context, n *notebook.Notebooks, choice *notebook.ProfileChoice) (*spawn.Facts, error) {
	f := &spawn.Facts{User: choice.User, Space: n.Namespace, Profile: choice.Name, Unread: map[string]string{}, Now: n.Options.Time()}
	var err error
	f.Found, err = n.CoreV1().Namespaces().Get(ctx, n.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.Found = nil
		return f, nil
	case apierrors.IsForbidden(err):
		f.Unread[spawn.Namespace] = "you cannot read namespaces"
	case err != nil:
		return nil, n.Failed("read namespace "+n.Namespace, err)
	}
	readController(ctx, n, f)
	if f.Wrong = readProfile(ctx, n, f, choice); f.Wrong != nil {
		return f, nil //nolint:nilerr // what is wrong with the profile is a finding
	}
	readRights(ctx, n, f)
	if err := readSpace(ctx, n, f); err != nil {
		return nil, err
	}
	f.Refusal, f.Unread[spawn.Admission] = tryPod(ctx, n, f)
	nodes, pods, err := n.Cluster.NodesAndPods(ctx, "")
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	if err != nil {
		for _, link := range []string{spawn.Image, spawn.Nodes, spawn.GPUs} {
			f.Unread[link] = "you cannot list nodes or the pods of all namespaces"
		}
		return f, nil
	}
	f.Nodes = nodes
	f.Volumes, _ = n.Volumes(ctx, f.Pod)
	f.Pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.Namespace == f.Pod.Namespace && p.Name == f.Pod.Name })
	return f, nil
}

// readController reads who runs notebooks.
func readController(ctx context.Context, n *notebook.Notebooks, f *spawn.Facts) {
	_, err := n.In(n.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	f.Served = !notebook.NoSuchKind(err)
	if f.Mode, f.Why, err = view.NotebookMode(ctx, n.Interface); err != nil {
		f.Unread[spawn.Controller] = "you cannot read ConfigMaps in " + view.ModesNamespace
		return
	}
	if lease, err := n.CoordinationV1().Leases(view.ModesNamespace).Get(ctx, view.ModesName, metav1.GetOptions{}); err == nil {
		f.Lease = lease
	}
}

// readProfile makes the notebook and its pod. The error is the finding.
func readProfile(ctx context.Context, n *notebook.Notebooks, f *spawn.Facts, choice *notebook.ProfileChoice) error {
	list, err := n.Profiles(ctx)
	if err != nil {
		return err
	}
	of, err := profile.Pick(list, choice.Name, choice.Groups)
	if err != nil {
		return err
	}
	f.Profile = of.Name
	there, err := n.Claims(ctx)
	if err != nil {
		there = nil // the claim is read below, and there it is said that it cannot be read
	}
	f.Object, f.Home, f.Warnings, err = profile.Render(of, profile.Choices{
		User: choice.User, Namespace: n.Namespace, Groups: choice.Groups, Options: choice.Options, Unlisted: choice.Unlisted, Claims: notebook.ClaimNames(there),
	})
	if err != nil {
		return err
	}
	f.Pod = notebook.PodOf(f.Object)
	f.Pod.Labels = maps.Clone(f.Object.Labels)
	return nil
}

// readRights asks whether the user and the caller may create notebooks.
func readRights(ctx context.Context, n *notebook.Notebooks, f *spawn.Facts) {
	may := authorizationv1.ResourceAttributes{Namespace: n.Namespace, Verb: "create", Group: kubeflow.Group, Resource: "notebooks"}
	mine, err := n.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &may},
	}, metav1.CreateOptions{})
	f.AskerMay = err == nil && mine.Status.Allowed
	if n.WhoAmI(ctx).Username == f.User {
		f.UserMay = f.AskerMay
		return
	}
	theirs, err := n.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: f.User, Groups: []string{"system:authenticated"}, ResourceAttributes: &may},
	}, metav1.CreateOptions{})
	if err != nil {
		f.Unread[spawn.Rights] = "you cannot check the permissions of others"
		return
	}
	f.UserMay = theirs.Status.Allowed
}

// readSpace reads the notebook of that name, claims, classes and quotas.
func readSpace(ctx context.Context, n *notebook.Notebooks, f *spawn.Facts) error {
	was, err := n.In(n.Namespace).Get(ctx, f.Object.Name, metav1.GetOptions{})
	if err == nil {
		nb, err := notebook.FromObject(was)
		if err != nil {
			return err
		}
		f.Existing, f.Trouble = notebook.StateSentence(nb), inTrouble(notebook.State(nb))
	}
	for _, name := range explain.ClaimsOf(f.Pod) {
		claim, err := n.CoreV1().PersistentVolumeClaims(n.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			f.Claims = append(f.Claims, claim)
		case apierrors.IsForbidden(err):
			f.Unread[spawn.Volumes] = "you cannot read PersistentVolumeClaims in " + n.Namespace
		case !apierrors.IsNotFound(err):
			return n.Failed("read PersistentVolumeClaim "+name, err)
		}
	}
	if list, err := n.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{}); err == nil {
		f.Classes = list.Items
	} else {
		f.Unread[spawn.Volumes] = "you cannot list storage classes"
	}
	if list, err := n.CoreV1().ResourceQuotas(n.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		f.Quotas = list.Items
	} else {
		f.Unread[spawn.Quota] = "you cannot list quotas in " + n.Namespace
	}
	return nil
}

// inTrouble reports whether a notebook in a state does not get ready by waiting.
func inTrouble(s reasons.Reason) bool {
	switch s { //nolint:exhaustive // the rest is well, or on its way
	case reasons.Ready, reasons.Starting, reasons.Pulling, reasons.Queued, reasons.Stopped, reasons.Restarting, reasons.Terminating:
		return false
	}
	return true
}

// tryPod has the API server check the pod as if it were to be made, and gives what it
// refuses; unread says why that could not be tried.
func tryPod(ctx context.Context, n *notebook.Notebooks, f *spawn.Facts) (refusal, unread string) {
	pod := f.Pod.DeepCopy()
	pod.Name, pod.GenerateName = "", f.Object.Name+"-"
	_, err := n.CoreV1().Pods(n.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "berth"})
	switch {
	case err == nil:
		return "", ""
	case apierrors.IsForbidden(err) && mayNot(ctx, n, "create", "pods"):
		return "", "you cannot create pods in " + n.Namespace + ", not even as a dry run"
	}
	return err.Error(), ""
}

// mayNot reports whether the caller lacks a permission in the namespace.
func mayNot(ctx context.Context, n *notebook.Notebooks, verb, resource string) bool {
	got, err := n.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: n.Namespace, Verb: verb, Resource: resource}},
	}, metav1.CreateOptions{})
	return err == nil && !got.Status.Allowed
}
