"""Any scorer with the thresholds that meet a goal; the public class and its steps."""
