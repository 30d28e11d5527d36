// "$generator": "iworkflow-contracts"

export type Approval = { by: string };

export type Created = { ok: true; organization_id: string };

/** An organisation to be taken in. */
export type Onboarding = { code: string; linked_by: string };

export type Refused = { ok: false; reason: string };

export type Input = Onboarding;

export type Outcomes = {
  created: Created;
  refused: Refused;
};

/** No tag says which it is: tell them apart by their members. */
export type Outcome = Outcomes[keyof Outcomes];

export type State = "checking" | "awaiting approval" | "provisioning";

export type Signals = {
  /** a manager approved */
  approve: Approval;
};

export type Queries = {
  /** which checks were passed */
  checks: Record<string, boolean>;
};

/** Takes an organisation in, once a manager has approved of it. */
export const contract = {
  name: "organizationOnboarding",
  taskQueue: "iprofile",
  workflowId: "iprofile-org-{code}",
} as const;
