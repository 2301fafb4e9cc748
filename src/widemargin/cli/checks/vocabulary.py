"""Words by which columns and values of data sets tell what they are: targets, harms, protected attributes, yes and no.

The languages are those of public data sets. Case, accents and the signs between words do not count: `Défaut_Paiement`
and `defautPaiement` are the same words. A star stands for any letters.
"""

import fnmatch
import functools
import re
import unicodedata
from collections.abc import Mapping

# Outcomes that nobody wishes for: what is bad at all; debts that are not paid, or late; crimes, and being suspected or
# found guilty of them; what somebody asked for and did not get; leaving, or having to; illness, accidents and death. A
# word that is a harm in one language and something else in another (`Vertrag` is a contract, `vertraging` a delay) is
# as long as it takes to tell them apart.
HARMS = """
bad risk risiko* risque riesgo risco rischio risico* ryzyko schlecht mauvais malo mau ruim cattivo slecht
arrears foreclos* evict* default* delinq* dlq*
charged charge*off late bankrupt* insolv* impay* defaut defaillan* failli* moros* moroso* impago*
incumpl* mora inadimpl* inadempi* insolut* ausgefallen atraso* retard* retraso* ritard* *ausfall* *verzug
verspat* verspaet* uberfallig* ueberfaellig* wanbetal* *achterstand* vertraging* faillissement*
zaleg* niespłac* betalningsanm* mislighold*
fraud* recid* reoffend* rearrest* arrest* convict* incarcerat* jail* betrug* *betrug ruckfall* rueckfall* festnahme*
verhaft* straffall* verurteil* *straftat* frode frodi condamn* reincid* detenid* detencion detid* condena* condann*
delito* delitt* crime* preso prisao reato reati aanhouding* veroordeel* bedrog* oszustw* bedrager*
reject* deny denied denial declin* refus* rejet* rechaz* denegad* negad* recus* rejeit* reprov* rifiut* respint*
*ablehn* abgelehn* absage* afgewezen afwijz* geweigerd* odmow* odrzuc* avslag* avslagen afslag*
churn* attrition exited expel* cancel* dropout dismiss* layoff* fired storno* *kundig* *kuendig* abwander*
abbruch* *abbruch entlass* demission* resili* desabonn* decroch* licenciement* abandon* baja desercion despido*
despedid* evasao demissao abbandon* disdett* licenziament* opzegging* uitval* ontslag* rezygnac*
disease dead death died deceas* fatal* stroke cancer* tumor* tumour* diabet* sepsis infarct* mortality relaps* readmi*
rehosp* reingres* wiedereinw* wiederaufn* reinter* riammiss* ricover* heropname
complication* complain* accident* krank* krebs* gestorben verstorben tod unfall* mort morte* deces* deced* malad*
muert* fallec* enferm* falec* obito doenca* morto malatt* cancro overleden overlijd* ziek* zgon* smierc sjuk*
дефолт* просроч* отказ* отток* умер* смерт* *违约* *逾期* *拒绝* *流失* *離職* *解約* *延滞* *不承認*
*연체* *부도* *거절* *이탈*
"""
# Words of targets, the likeliest first.
TARGETS = {
    "says so": "target label labels y class outcome ziel zielvariable zielgrosse cible objetivo obiettivo alvo doel "
    "ergebnis resultado resultat risultato uitkomst esito klasse classe",
    "usual": "income default defaulted churn churned fraud approve* recid* surviv* einkommen ingresos renda reddito",
    "event": "response hired admitted callback* released diagnosis converted clicked purchase* bought spam good "
    f"result {HARMS}",
}
BIRTH = (
    "birth births birthd* birthy* birthm* ybirth born yearborn dob yob geburt* geboren naissance nacimiento "
    "nascimento nascita geboorte* urodzen* рождени* 出生* 生年* 생년*"
)
"""Words of a day or a year that tells an age."""
PROTECTED = {
    "sex": "sex ismale isfemale pronoun* sexe sexo sesso gender* *gender geschlecht genero genre geslacht kon male "
    "female* woman women geschl weiblich mannlich femme homme mujer hombre płec "
    "kjønn køn sukupuoli pohlavi cinsiyet пол 性別 性别 성별",
    "race": "race* racial* ethn* *ethnicity etni* *black* african* afam aframer* caucasian* hisp* *hisp *hispanic* "
    "latino* latina* nonwhite* nwhite aian nhpi islander* rac1* tribe* tribal* ancestry "
    "raza raca razza rasse aborig* indigen* skin skincol* skinton* caste раса 民族 种族 人種 인종 민족",
    "age": "age ages agep agea agegr* agecat* ageband agerange ageyrs edad idade leeftijd altersgruppe altersklasse "
    f"senior seniors wiek ålder vek yas возраст* 年齢* 年龄* 나이 연령* {BIRTH}",
    "religion": "relig* faith konfession geloof catholic* protestant* muslim* islam islamic jewish hindu* wyznanie "
    "godsdienst* религия 宗教 종교",
    "disability": "disab* handicap* *behinder* invalid* discapac* deficiencia",
    "nationality": "national* nacional* nazional* citizen* foreign* immigr* migra* native* nativity birthplace "
    "staatsang* *auslander* auslaender* etrang* extranj* estrang* stranier* "
    "cittadinanza medborg* obywatel* narodowosc гражданство национальность uyruk 国籍 국적",
    "family": "marit* marst* *marr *marri* maried marry widow* divorc* pregnan* familienstand schwanger* enceinte "
    "embaraz* gestante gravid* zwanger*",
    "orientation": "orientation lgbt*",
    "service": "veteran*",
}
"""What people are protected by, those that requirements are most often about first, and words that speak of it."""
ALIKE = {
    "sex": "men man gendr gndr fml",
    "race": "white* asian* indian eth herkunft origine origen origem minority cor ras afkomst",
    "age": "alter eta alder older elderly younger",
    "family": "mar family familial* familiar* civil civile civilst* cywilny burgerlijke single spouse",
    "nationality": "country* nation nations cit language* tongue",
}
"""Words that may speak of it and often do not."""
VALUES = {
    "sex": {"male", "female", "man", "woman", "men", "women", "husband", "wife", "mann", "frau", "hombre", "mujer",
            "homme", "femme", "uomo", "donna", "homem", "mulher", "vrouw", "weiblich", "mannlich", "masculino",
            "femenino", "feminino"},
    "race": {"white", "black", "asian", "hispanic", "latino", "caucasian", "african-american", "native american"},
}  # fmt: skip
"""Values that only such columns have."""
GOOD_VALUES = """
good approved accepted hired admitted granted paid repaid pass passed promoted survived show shows showed attended
gut genehmigt bewilligt angenommen eingestellt
zugelassen bestanden bezahlt bon bonne accepte* approuve* accorde* embauche* admis* reussi* paye* buen* aprobad*
aceptad* concedid* contratad* admitid* pagad* bom boa aprovad* aceit* pago buono buona approvat* accettat* concess*
assunt* ammess* promoss* pagat* goed goedgekeurd geaccepteerd toegekend aangenomen toegelaten geslaagd betaald
beviljad* godkand* godkendt* godkjent* przyznan* zaakceptowan*
"""
BAD_VALUES = """
bad denied rejected declined default fraud fail failed late charged* schlecht abgelehnt nicht* durchgefallen mauvais*
refuse* rejete* impaye* mal malo mala rechazad* denegad* reprobad* moros* mau ma ruim negad* recusad* reprovad*
inadimplente cattiv* respint* rifiutat* negato negata bocciat* slecht afgewezen geweigerd gezakt avslag* avslagen
afslag* odrzucon*
"""
AFFIRMATIVE = """
1 1.0 true t yes y ja j si oui sim vrai verdadero verdadeiro vero waar wahr kylla igen da tak ano evet ναι да так نعم
כן हाँ 是 はい 예 네
"""
DENYING = {"not", "no", "non", "never", "nicht", "kein", "keine", "pas", "nao", "niet", "geen", "nie"}
"""Words in a target's name that turn a benefit into a harm, and a harm into a benefit."""
SAMPLING = "fnlw* weights perw* *pspw* dw*ght pw*ght anw*ght final*w* fin*wt* samp*w* survey*w* *design*w* ipw*"
"""Words of weights by which rows were sampled; a weight without more may be one."""
SIZES = """
height* hgt ht length* bmi waist* wing* size* gestat* weeks litter* gained stature* tall* groesse* taille
body* bone* fat horsepower displacement mpg"""
"""Words of columns beside which a weight is one that a scale shows."""
EARLIER = {
    "deployed", "old", "earlier", "current", "previous", "baseline", "prediction", "predicted", "decision",
}  # fmt: skip
"""Words of columns that hold decisions of an earlier model."""
_OF_BIRTH = {"country", "place", "weight", "wt", "wgt", "order", "control", "rate", "length", "type", "defect"}
"""Words beside which that of a birth tells no age."""
_OF_SKIN = {"color", "colour", "tone", "type", "complexion", "skincolor", "skincolour", "skintone"}
"""Words without which that of a skin is about its folds or its diseases."""
OF_THINGS = {
    "account", "asset", "auto", "building", "car", "company", "credit", "device", "fahrzeug", "firm", "home", "house",
    "konto", "loan", "machine", "policy", "property", "vehicle",
}  # fmt: skip
"""Words beside which an age may be that of a thing."""
AGED = {"old", "young"}
"""Names of columns that say whether somebody is, where no other word says what is."""


def words_of(name: str) -> set[str]:
    """The words of a column's name: `marital_status`, `maritalStatus` and `MARITAL STATUS` have the same two."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return {word for word in re.split(r"[\W_]+", plain_letters(spaced)) if word}


def plain_letters(text: str) -> str:
    """Without case and accents, however these are written."""
    parts = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", "".join(sign for sign in parts if not unicodedata.combining(sign)))


def plain_word(text: str) -> str:
    """A value without case, accents and the blanks around it, and without a number before its word: `1. Yes`."""
    return re.sub(r"^\d+[.):\s_-]+(?=[^\W\d])", "", plain_letters(text.strip()))


def matching_kind(patterns: Mapping[str, str], name: str) -> str | None:
    """The first kind of which a column's name speaks; None where it speaks of none."""
    words = words_of(name)
    words |= {word.rstrip("0123456789") for word in words if len(word) > 3}  # `age76`: that of a year, or a group
    if _OF_BIRTH & words:
        words -= {"birth", "born"}
    if not _OF_SKIN & words:
        words -= {"skin", "skinthickness"}
    return next((kind for kind, of_kind in patterns.items() if any(is_one_of(of_kind, word) for word in words)), None)


def is_one_of(patterns: str, text: str) -> bool:
    """Whether a text as a whole is one of some words."""
    return _any_of(patterns).fullmatch(plain_word(text)) is not None


@functools.cache
def _any_of(patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(plain_letters(pattern)) for pattern in patterns.split()))
