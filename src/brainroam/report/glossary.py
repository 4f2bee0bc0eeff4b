"""What the head of a column means, in one sentence; shown on hover, below each table, and in print."""

MEANING = {
    "acc": "Share of people classified right, at the threshold learned on the training sites.",
    "age_mean": "Mean age in years, with the standard deviation between people.",
    "age_min": "Youngest and oldest person.",
    "age_sex_alone": "AUC of age and sex alone: a logistic model of the other sites that never sees the brain.",
    "auc": "Probability that a randomly chosen person with the condition scores higher than a randomly chosen "
    "control of the same site: "
    "0.5 is guessing, 1 is perfect.",
    "concordance": "AUC over all pairs of a person with the condition and a control of the same site, each pair "
    "counting once: large sites "
    "count for more than in the mean over sites.",
    "auc_low": "95 % interval of the mean over sites.",
    "auc_without_all": "AUC after log motion, age and sex are taken out of the score, within site and class.",
    "auc_without_age_sex": "AUC after age and sex are taken out of the score, within site and class.",
    "auc_without_motion": "AUC after log motion (mean framewise displacement) is taken out of the score, within site "
    "and class.",
    "balanced_acc": "Mean of sensitivity and specificity, at the threshold learned on the training sites: 0.5 is "
    "guessing, whatever the share with the condition.",
    "brier_constant": "Brier score of giving everybody the share with the condition as probability: a model "
    "should lie below it.",
    "brier": "Mean squared difference between predicted probability and what was true: 0 is perfect, 0.25 is "
    "saying 50 % to everybody.",
    "calibration_intercept": "0 is perfect; below 0 too many people are predicted to have the condition, above 0 "
    "too few.",
    "calibration_slope": "1 is perfect; below 1 the probabilities are too extreme, above 1 too timid.",
    "d_com": "Consensus contrast: the median over training sites of the difference in connectivity between people with "
    "and without the condition. Positive: stronger with the condition.",
    "d_site": "The same difference at this site alone.",
    "covered": "Share of people whose answer holds their true class; either holds both.",
    "decided": "Share of people for whom the answer is one class, not either.",
    "difference": "Mean over sites, weighted as the AUC is, of the difference in AUC, in points of 0.01; positive: "
    "better than the reference.",
    "effect": "Mean size of what the edge adds to the score; negative where a stronger edge speaks against the "
    "condition.",
    "gap": "The last group minus the first, all sites together.",
    "kappa": "Sign consistency: the share of training sites whose contrast has the sign of d_com.",
    "limit": "Where the check would have been judged otherwise.",
    "calibration_in_the_large": "How far the mean probability, classes counting alike, is off one half: 0 is perfect.",
    "low": "Where the true value lies in 95 of 100 such studies; a dash where sites or people are too few.",
    "male": "Share of men and boys among those whose sex is known.",
    "mean_fd_mean": "Mean framewise displacement, a measure of head motion, in mm.",
    "mean_gate": "Mean over held-out people of how open the pathway's gate is: 0 shut, 1 open.",
    "mean_probability": "Mean predicted probability of the condition.",
    "mean_size_of_contribution": "Mean over held-out people of how much the pathway moved the logit, either way.",
    "motion_alone": "AUC of head motion alone: a logistic model of the other sites that never sees the brain.",
    "npv": "Share of people without the condition among those not predicted to have it (negative predictive value).",
    "n": "People.",
    "n_cases": "People with the condition.",
    "n_controls": "People without the condition.",
    "next_low": "95 % prediction interval: where the AUC of a next site like these is to be expected.",
    "nu": "Share of the folds whose scaffold contains the edge. Folds share most of their training sites.",
    "p": "Two-sided p of the mean difference, with the site as the unit.",
    "p_holm": "The same, corrected for the number of comparisons in this table (Holm).",
    "pi": "Stability: the share of bootstraps of the training sites in which the consensus d_com keeps its sign.",
    "ppv": "Share of people with the condition among those predicted to have it (positive predictive value).",
    "prevalence": "Share of people with the condition.",
    "r_motion": "Correlation of score and log motion within site and class: 0 means that the score does not follow "
    "motion.",
    "right": "Of the people for whom one class is named, the share with the right one.",
    "sensitivity": "Share of people with the condition who are found.",
    "share": "Share of people with the condition.",
    "specificity": "Share of people without the condition who are left alone.",
    "tr": "Repetition time of the scan, in seconds.",
    "volumes_median": "Length of the scan in volumes: median, and range where it differs.",
    "won": "At how many sites the method is better than the reference.",
    "worst_auc": "The site with the lowest AUC, of those with at least five people of each class.",
}
